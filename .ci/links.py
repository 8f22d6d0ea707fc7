"""Checks that relative links of the Markdown files resolve: files, folders, and headings."""

import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"(?:\]\(|(?:href|src|srcset)=\")([^)\s\"]+)[)\"]")


def main():
    files = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    broken = [error for name in files for error in errors(pathlib.Path(name))]
    for error in broken:
        print(error, file=sys.stderr)
    print(f"{len(files)} Markdown files, {len(broken)} broken links")
    sys.exit(bool(broken))


def errors(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    for target in LINK.findall(text):
        # Links of the guide are resolved by rustdoc.
        if re.match(r"[a-z]+:", target) or "::" in target or "src/guide" in str(path):
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        if not found.exists():
            yield f"{path}: {target}: no such file"
        elif anchor and anchor not in anchors(found.read_text()):
            yield f"{path}: {target}: no such heading"


def anchors(text):
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    main()
