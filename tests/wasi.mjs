// Runs a WASI program under Node: `node tests/wasi.mjs PROGRAM [ARGUMENT…]`, as cargo's runner for `wasm32-wasip1`.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program, ...rest], env: process.env });
const module = await WebAssembly.compile(await readFile(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
