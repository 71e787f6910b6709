"""What the published codes compute with, in float64."""
import math

import numpy as np


def silu(x):
    return x / (1 + np.exp(-x))


gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))


def relu(x):
    return np.maximum(x, 0)


def norm(x, epsilon):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)


def unit(x, epsilon=1e-6):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), epsilon)


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def best(similarities, count):
    """The items, from 1 on, with the largest similarities; similarities[0] belongs to item 1."""
    return [int(i) + 1 for i in np.argsort(-similarities, kind="stable")[:count]]
