"""Opens a page of `search-page` in Chromium, types a query as a visitor would, and prints what the page shows as JSON.

Usage: search_page.py CHROMIUM PAGE QUERY [--compare] [--screenshot FILE]
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

# Fonts and updates that the browser would look for; the page itself asks for nothing.
OFFLINE = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("chromium")
    parser.add_argument("page", type=Path)
    parser.add_argument("query")
    parser.add_argument("--compare", action="store_true", help="also time the dense form")
    parser.add_argument("--screenshot", type=Path)
    options = parser.parse_args()
    with sync_playwright() as playwright:
        chromium = shutil.which(options.chromium) or options.chromium
        browser = playwright.chromium.launch(executable_path=chromium, args=OFFLINE)
        page = browser.new_page(viewport={"width": 1000, "height": 1100})
        problems, requests = [], []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(options.page.resolve().as_uri())
        finished(page, "ready")
        page.get_by_label("Search", exact=True).press_sequentially(options.query)
        page.wait_for_function("query => at('results').dataset.query === query", arg=options.query)
        found = {
            "results": [
                {"score": float(row.locator("data").get_attribute("value")), "text": row.locator("span").inner_text()}
                for row in page.locator("#results li").all()
            ],
            "embedding": page.evaluate(
                "async text => Array.from((await packed.ask('embed', {texts: [text]})).vectors)", options.query
            ),
        }
        if options.compare:
            page.get_by_role("button", name="Compare with dense floats").click()
            finished(page, "compared")
        for name in ["status", "kernels", "speedup"]:
            found[name] = page.locator(f"#{name}").inner_text()
        for column in ["packed", "dense"]:
            for row in ["bytes", "load", "rate"]:
                found[f"{column}_{row}"] = page.locator(f"#{column}-{row}").inner_text()
        if options.screenshot:
            page.screenshot(path=options.screenshot, full_page=True)
        browser.close()
    # Blobs and the page itself are in the browser.
    found["elsewhere"] = [url for url in requests if not url.startswith(("file:", "blob:", "data:"))]
    found["problems"] = problems
    json.dump(found, sys.stdout)


def finished(page, state: str) -> None:
    """Waits for a state of the page, or for an error that it shows."""
    page.wait_for_function(
        "state => [state, 'wrong'].includes(at('status').dataset.state)", arg=state, timeout=180_000
    )
    if page.locator("#status").get_attribute("data-state") == "wrong":
        sys.exit(f"the page shows: {page.locator('#status').inner_text()}")


if __name__ == "__main__":
    main()
