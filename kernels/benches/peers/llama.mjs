// llama.cpp on a GGUF file: tokens per second that it reads, 512 at once, and that it generates, 32 after 16.
//
//     UV_THREADPOOL_SIZE=1 NODE_PATH=MODULES node llama.mjs FILE [--threads 2]
//
// MODULES is the folder node_modules that holds node-llama-cpp 3.22.1. Prints one JSON object with medians, and to
// stderr the CPU backend that was loaded. What is timed is what the bench `pretrained` times of ours: any tokens, logits
// of the last one, no sampling.
//
// node-llama-cpp starts llama.cpp's threads anew for every token, from one of libuv's threads. Where several of these
// take turns, Linux may start them all on one core, and a token takes four times as long: hence only one of libuv's.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const READ = 512;
const PROMPT = 16;
const GENERATED = 32;
const SAMPLES = 5;

const { positionals: [file], values } = parseArgs({
    allowPositionals: true,
    options: { threads: { type: "string", default: "2" } },
});
const threads = Number(values.threads);
if (process.env.UV_THREADPOOL_SIZE !== "1")
    console.error("UV_THREADPOOL_SIZE is not 1: generation may be several times too slow");

// Looks the module up as `require` does: `import` takes no notice of NODE_PATH.
const module = createRequire(import.meta.url).resolve("node-llama-cpp");
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(module));
const llama = await getLlama({
    gpu: false, build: "never", skipDownload: true, progressLogs: false, maxThreads: threads,
    logLevel: LlamaLogLevel.error,
});
// No mmap, so that weights may be repacked for this CPU.
const model = await llama.loadModel({ modelPath: file, useMmap: false });
const context = await model.createContext({
    contextSize: READ, batchSize: READ, sequences: 1, threads, flashAttention: true,
});

// Calls the binding itself: the public sequence queues, sorts and meters every batch in JavaScript, and samples.
const binding = context._ctx;
const ids = Uint32Array.from({ length: READ }, (_, at) => (at * 37) % 49152);

async function evaluate(tokens, position) {
    binding.initBatch(tokens.length);
    binding.addToBatch(0, position, tokens, Uint32Array.of(tokens.length - 1));
    await binding.decodeBatch();
}

async function read() {
    binding.disposeSequence(0);
    const started = performance.now();
    await evaluate(ids, 0);
    return READ / (performance.now() - started) * 1e3;
}

async function generate() {
    binding.disposeSequence(0);
    await evaluate(ids.subarray(0, PROMPT), 0);
    const started = performance.now();
    for (let at = PROMPT; at < PROMPT + GENERATED; at++)
        await evaluate(ids.subarray(at, at + 1), at);
    return GENERATED / (performance.now() - started) * 1e3;
}

async function median(run) {
    // Discards the first: it touches the memory.
    await run();
    const found = [];
    for (let sample = 0; sample < SAMPLES; sample++)
        found.push(await run());
    return found.sort((a, b) => a - b)[SAMPLES >> 1];
}

const [backend] = process.report.getReport().sharedObjects.filter((path) => path.includes("ggml-cpu"));
console.error(backend.split("/").at(-1), `threads ${binding.getThreads()}`, llama.systemInfo);
const rounded = (value) => Math.round(value * 10) / 10;
console.log(JSON.stringify({ prefill: rounded(await median(read)), decode: rounded(await median(generate)) }));
await llama.dispose();
