// Runs a model in a thread of its own; the glue of wasm-bindgen comes before this text.
let embedder;

const answers = {
    async load({ wasm, files, dense }) {
        await wasm_bindgen({ module_or_path: wasm });
        const started = performance.now();
        const folder = new wasm_bindgen.Files();
        for (const [name, bytes] of files) folder.add(name, bytes);
        embedder = new wasm_bindgen.Embedder(folder, dense);
        return { milliseconds: performance.now() - started, parameters: embedder.parameters() };
    },
    kernels({ text }) {
        return embedder.kernels(text);
    },
    embed({ texts }) {
        const started = performance.now();
        const vectors = embedder.embed(texts);
        return { vectors, milliseconds: performance.now() - started };
    },
};

onmessage = async ({ data: { id, name, values } }) => {
    try {
        postMessage({ id, value: await answers[name](values) });
    } catch (error) {
        postMessage({ id, error: String(error?.message ?? error) });
    }
};
