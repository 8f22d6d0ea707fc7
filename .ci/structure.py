#!/usr/bin/env python3
"""Names modules of a crate that use each other, directly or in a circle.

Siblings (the files and folders of one folder) may depend on each other one way only, at every level of every crate.
`use` declarations and inline paths are resolved through the re-exports of `mod.rs` and `lib.rs` to the file that
defines an item. Tests (`#[cfg(test)]` modules, `tests` folders) are left out; a folder's own `mod.rs`, which declares
and re-exports its children, belongs to the folder.

usage: structure.py [CRATE_FOLDER ...]      (without arguments every workspace member but the CUDA emulator, a test tool
whose instructions and machine use each other)
"""
import re
import sys
import tomllib
from pathlib import Path


def without_comments_and_tests(text):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"r#*\"(?:.|\n)*?\"#*", '""', text)
    text = re.sub(r"\"(?:\\.|[^\"\\])*\"", '""', text)
    out, at = [], 0
    for found in re.finditer(r"#\[cfg\((?:all\()?test\b[^\]]*\)\]\s*(?:pub(?:\([a-z]+\))?\s+)?mod\s+\w+\s*", text):
        if found.start() < at:
            continue
        out.append(text[at : found.start()])
        at = found.end()
        if text[at : at + 1] == "{":
            depth = 0
            for end in range(at, len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            at = end + 1
        else:
            at += 1
    return "".join(out) + text[at:]


def flatten(tree, prefix=()):
    """`a::{b, c::d as e}` as ((path), name) pairs."""
    tree = tree.strip()
    depth, parts, last = 0, [], ""
    brace = tree.find("{")
    if brace >= 0 and tree.endswith("}"):
        head = [part for part in tree[:brace].split("::") if part.strip()]
        inner = tree[brace + 1 : -1]
        for letter in inner:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                parts.append(last)
                last = ""
            else:
                last += letter
        parts.append(last)
        for part in filter(str.strip, parts):
            yield from flatten(part, prefix + tuple(word.strip() for word in head))
        return
    path, _, name = tree.partition(" as ")
    path = prefix + tuple(word.strip() for word in path.split("::"))
    if path[-1] == "self":
        path = path[:-1]
    yield path, name.strip() or path[-1]


class Crate:
    def __init__(self, folder):
        self.source = Path(folder) / "src"
        self.files = {}
        for path in sorted(self.source.rglob("*.rs")):
            parts = list(path.relative_to(self.source).with_suffix("").parts)
            if parts[-1] in ("mod", "lib", "main"):
                parts.pop()
            if parts == ["tests"] or "tests" in parts:
                continue
            self.files[tuple(parts)] = without_comments_and_tests(path.read_text())
        self.exports = {module: {} for module in self.files}
        for module, text in self.files.items():
            for visible, tree in re.findall(r"(pub(?:\([a-z ]+\))?)\s+use\s+([^;]+);", text):
                for path, name in flatten(tree):
                    self.exports[module][name] = path

    def module(self, path):
        """The longest prefix of an absolute path that is a module of this crate."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.files:
                return path[:end]
        return ()

    def absolute(self, module, path):
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            up = list(module)
            while path and path[0] == "super":
                up, path = up[:-1], path[1:]
            return tuple(up) + path
        if module + path[:1] in self.files:
            return module + path
        return None

    def resolve(self, path, seen=()):
        """The module that defines the item at an absolute path."""
        module = self.module(path)
        rest = path[len(module) :]
        if rest and rest[0] in self.exports.get(module, {}) and (module, rest[0]) not in seen:
            target = self.absolute(module, self.exports[module][rest[0]])
            if target is not None:
                return self.resolve(target + rest[1:], seen + ((module, rest[0]),))
        return module

    def uses(self, module, text):
        private = re.sub(r"pub(?:\([a-z ]+\))?\s+use\s+[^;]+;", "", text)
        for tree in re.findall(r"\buse\s+([^;]+);", private):
            for path, _ in flatten(tree):
                yield path
        inline = re.sub(r"\buse\s+[^;]+;", "", private)
        inline = re.sub(r"\bpub\s*\((?:in\s+)?[\w:]+\)", "", inline)
        for path in re.findall(r"\b((?:crate|super|self)(?:::\w+)+)", inline):
            yield tuple(path.split("::"))
        children = {part[len(module)] for part in self.files if part[: len(module)] == module and len(part) > len(module)}
        for head, rest in re.findall(r"(?<![:\w])(\w+)((?:::\w+)+)", inline):
            if head in children:
                yield (head,) + tuple(rest.split("::")[1:])

    def edges(self):
        for module, text in self.files.items():
            for path in self.uses(module, text):
                absolute = self.absolute(module, path)
                if absolute is None:
                    continue
                target = self.resolve(absolute)
                # The folder in which the two part ways.
                common = 0
                while common < min(len(module), len(target)) and module[common] == target[common]:
                    common += 1
                if common < len(module) and common < len(target):
                    yield module[:common], module[common], target[common], module, absolute


def circles(crate):
    graphs = {}
    for folder, user, used, module, path in crate.edges():
        graphs.setdefault(folder, {}).setdefault(user, {}).setdefault(used, (module, path))
    for folder, graph in sorted(graphs.items()):
        reported = set()
        for start in sorted(graph):
            trail = find(graph, start, start, [start], set())
            if trail and frozenset(trail) not in reported:
                reported.add(frozenset(trail))
                yield folder, trail, [graph[a][b] for a, b in zip(trail, trail[1:] + trail[:1])]


def find(graph, at, goal, trail, seen):
    for used in sorted(graph.get(at, {})):
        if used == goal:
            return trail
        if used not in seen:
            seen.add(used)
            found = find(graph, used, goal, trail + [used], seen)
            if found:
                return found
    return None


def main():
    folders = sys.argv[1:]
    if not folders:
        folders = tomllib.loads(Path("Cargo.toml").read_text())["workspace"]["members"]
        folders.remove("tests/gpu/emulator")
    bad = 0
    for folder in folders:
        for inside, trail, witnesses in circles(Crate(folder)):
            bad += 1
            where = "/".join((str(folder), "src") + inside)
            print(f"{where}: {' -> '.join(trail + trail[:1])}")
            for module, path in witnesses:
                print(f"    {'::'.join(module)} uses {'::'.join(path)}")
    print(f"{len(folders)} crates, {bad} circles of modules")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
