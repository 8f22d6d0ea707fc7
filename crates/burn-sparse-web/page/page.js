const at = (id) => document.getElementById(id);
const status = at("status");

// Files that the page carries: gzip in base64.
async function carried(element) {
    const text = element.textContent;
    element.remove();
    const bytes = Uint8Array.fromBase64
        ? Uint8Array.fromBase64(text)
        : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A model in a worker, whose answers are promises.
class Model {
    constructor(source) {
        this.worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        this.waiting = new Map();
        this.worker.onmessage = ({ data: { id, value, error } }) => {
            const { resolve, reject } = this.waiting.get(id);
            this.waiting.delete(id);
            error === undefined ? resolve(value) : reject(new Error(error));
        };
        this.worker.onerror = ({ message }) => {
            for (const { reject } of this.waiting.values()) reject(new Error(message));
            this.waiting.clear();
        };
        this.next = 0;
    }

    ask(name, values) {
        const id = this.next++;
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { resolve, reject });
            this.worker.postMessage({ id, name, values });
        });
    }
}

let source, wasm, files, packed, texts, vectors, width;

function say(text, wrong = false) {
    status.textContent = text;
    status.classList.toggle("wrong", wrong);
}

// Runs a step of which the page shows what went wrong.
async function step(run) {
    try {
        await run();
    } catch (error) {
        say(error.message, true);
        status.dataset.state = "wrong";
    }
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(2)} s`;
const rate = (milliseconds) => texts.length / (milliseconds / 1000);
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

async function start() {
    source = JSON.parse(at("source").textContent);
    wasm = await carried(at("wasm"));
    files = [];
    for (const element of document.querySelectorAll("script[data-file]")) {
        files.push([element.dataset.file, await carried(element)]);
    }
    packed = new Model(source);
    const { milliseconds } = await packed.ask("load", { wasm, files, dense: false });
    const [, weights] = files.find(([name]) => name === "model.safetensors");
    at("packed-bytes").textContent = megabytes(weights.length);
    at("packed-load").textContent = seconds(milliseconds);
    await index(at("sentences").value);
    const kernels = await packed.ask("kernels", { text: texts[0] });
    at("kernels").textContent = `Kernels that ran: ${kernels.join("; ") || "of dense floats"}.`;
    at("query").disabled = at("replace").disabled = at("compare").disabled = false;
    status.dataset.state = "ready";
}

// Embeds the sentences to search in.
async function index(lines) {
    const found = lines.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    if (found.length === 0) throw new Error("There are no sentences: write one per line.");
    say(`Embedding ${found.length} sentences…`);
    const embedded = await packed.ask("embed", { texts: found });
    [texts, vectors] = [found, embedded.vectors];
    width = vectors.length / texts.length;
    at("packed-rate").textContent = rate(embedded.milliseconds).toFixed(0);
    say(`${texts.length} sentences embedded in ${seconds(embedded.milliseconds)}.`);
}

let asked = 0;
async function search() {
    const [text, turn] = [at("query").value.trim(), ++asked];
    if (text === "") return at("results").replaceChildren();
    const { vectors: [...query], milliseconds } = await packed.ask("embed", { texts: [text] });
    // Another query may have been typed in the meantime.
    if (turn !== asked) return;
    const cosine = (place) => query.reduce((sum, value, i) => sum + value * vectors[place * width + i], 0);
    const scored = texts.map((text, place) => ({ text, score: cosine(place) }));
    scored.sort((a, b) => b.score - a.score);
    at("results").replaceChildren(...scored.slice(0, 5).map(({ text, score }) => {
        const [item, number, words] = ["li", "data", "span"].map((name) => document.createElement(name));
        [number.value, number.textContent, words.textContent] = [score, score.toFixed(2), text];
        item.append(number, words);
        return item;
    }));
    at("results").dataset.query = text;
    say(`${texts.length} sentences searched; the query took ${milliseconds.toFixed(0)} ms.`);
}

// Both forms embed the same sentences in turns; the median of three counts.
async function compare() {
    at("compare").disabled = true;
    say("Loading the same model with dense floats…");
    const dense = new Model(source);
    try {
        await measure(dense);
    } finally {
        dense.worker.terminate();
        at("compare").disabled = false;
    }
    say("Compared.");
    status.dataset.state = "compared";
}

async function measure(dense) {
    const { milliseconds, parameters } = await dense.ask("load", { wasm, files, dense: true });
    at("dense-bytes").textContent = megabytes(4 * parameters);
    at("dense-load").textContent = seconds(milliseconds);
    const times = [[], []];
    for (let round = 0; round < 3; round++) {
        say(`Embedding ${texts.length} sentences with each, ${round + 1} of 3…`);
        for (const [model, took] of [[packed, times[0]], [dense, times[1]]]) {
            took.push((await model.ask("embed", { texts })).milliseconds);
        }
    }
    const [fast, slow] = times.map(median);
    at("packed-rate").textContent = rate(fast).toFixed(0);
    at("dense-rate").textContent = rate(slow).toFixed(0);
    at("speedup").textContent = `This model is ${(slow / fast).toFixed(1)} times as fast as with dense floats.`;
    for (const cell of document.querySelectorAll(".dense")) cell.hidden = false;
}

at("query").addEventListener("input", () => step(search));
at("replace").addEventListener("click", () => step(async () => {
    await index(at("sentences").value);
    await search();
}));
at("compare").addEventListener("click", () => step(compare));
step(start);
