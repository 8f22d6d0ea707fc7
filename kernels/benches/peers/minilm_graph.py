"""MiniLM as an ONNX graph, from a folder's own configuration and weights, with the operators that exporters write."""

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


class Graph:
    """Nodes and weights of an ONNX graph under construction."""

    def __init__(self):
        self.nodes, self.weights, self.known = [], [], set()

    def constant(self, name, value):
        if name not in self.known:
            self.known.add(name)
            self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def scalar(self, value):
        return self.constant(f"c{value}", np.array(value, np.float32))

    def op(self, kind, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output


class Fused:
    """Sizes that vary, and normalizations of one operator: opset 18."""

    opset, ir = 18, 9
    size = ["batch", "tokens"]

    def norm(self, g, x, scale, shift, epsilon):
        return g.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def places(self, g, table):
        length = g.op("Slice", g.op("Shape", "ids"), *(g.constant(f"i{i}", np.array([i], np.int64)) for i in (1, 2)))
        zero = g.constant("i0", np.array([0], np.int64))
        return g.op("Slice", g.constant("places", table), zero, length, zero)

    def embedding(self, g, x):
        mean = g.op("ReduceMean", x, g.constant("i1", np.array([1], np.int64)), keepdims=0)
        return g.op("LpNormalization", mean, axis=-1, p=2)


class Fixed:
    """One size, and normalizations of several operators, as older exporters wrote them: opset 13, which DeepSparse reads."""

    opset, ir = 13, 8

    def __init__(self, batch, tokens):
        self.size = [batch, tokens]

    def norm(self, g, x, scale, shift, epsilon):
        away = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
        variance = g.op("ReduceMean", g.op("Pow", away, g.scalar(2.0)), axes=[-1])
        deviation = g.op("Sqrt", g.op("Add", variance, g.scalar(epsilon)))
        return g.op("Add", g.op("Mul", g.op("Div", away, deviation), scale), shift)

    def places(self, g, table):
        return g.constant("places", table[: self.size[1]])

    def embedding(self, g, x):
        mean = g.op("ReduceMean", x, axes=[1], keepdims=0)
        return g.op("Div", mean, g.op("ReduceL2", mean, axes=[-1]))


def pruned(weight, sparsity):
    """The weights of largest magnitude, and zeros."""
    dropped = round(sparsity * weight.size)
    result = weight.copy()
    result.ravel()[np.argsort(np.abs(weight), axis=None)[:dropped]] = 0
    return result


def build(folder, form, sparsity=0.0):
    """Builds the graph, with every matrix of the encoder pruned by magnitude."""
    config = json.loads((folder / "config.json").read_text())
    w = load_file(folder / "model.safetensors")
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size, g = width // heads, Graph()

    def linear(x, name):
        weight = g.constant(f"{name}.weight", pruned(w[f"{name}.weight"], sparsity).T)
        return g.op("Add", g.op("MatMul", x, weight), g.constant(f"{name}.bias", w[f"{name}.bias"]))

    def norm(x, name):
        parts = (g.constant(f"{name}.{part}", w[f"{name}.{part}"]) for part in ("weight", "bias"))
        return form.norm(g, x, *parts, config["layer_norm_eps"])

    def split(x, order):
        shape = g.constant("split", np.array([0, 0, heads, size], np.int64))
        return g.op("Transpose", g.op("Reshape", x, shape), perm=order)

    e = "embeddings"
    table = w[f"{e}.position_embeddings.weight"] + w[f"{e}.token_type_embeddings.weight"][0]
    words = g.op("Gather", g.constant("words", w[f"{e}.word_embeddings.weight"]), "ids", axis=0)
    x = norm(g.op("Add", words, form.places(g, table)), f"{e}.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}"
        q, k, v = (linear(x, f"{p}.attention.self.{part}") for part in ("query", "key", "value"))
        q, k, v = split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]), split(v, [0, 2, 1, 3])
        scores = g.op("Div", g.op("MatMul", q, k), g.scalar(float(size**0.5)))
        context = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
        merged = g.constant("merge", np.array([0, 0, width], np.int64))
        context = g.op("Reshape", g.op("Transpose", context, perm=[0, 2, 1, 3]), merged)
        x = norm(g.op("Add", linear(context, f"{p}.attention.output.dense"), x), f"{p}.attention.output.LayerNorm")
        y = linear(x, f"{p}.intermediate.dense")
        erf = g.op("Erf", g.op("Div", y, g.scalar(float(2**0.5))))
        y = g.op("Mul", g.op("Mul", y, g.op("Add", erf, g.scalar(1.0))), g.scalar(0.5))
        x = norm(g.op("Add", linear(y, f"{p}.output.dense"), x), f"{p}.output.LayerNorm")
    embedding = form.embedding(g, x)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, form.size)
    out = helper.make_tensor_value_info(embedding, TensorProto.FLOAT, [form.size[0], width])
    graph = helper.make_graph(g.nodes, "bert", [ids], [out], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", form.opset)], ir_version=form.ir)
