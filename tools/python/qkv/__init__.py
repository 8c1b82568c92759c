"""qkv: trainable mini-transformers. Train a translator or a language model, and look at its attention.

    import qkv
    run = qkv.train("configs/toy_en_es.yaml", {"training.updates": 2000})
    run.translate(["the red house"], beam=4)
    maps = run.attention("the cat is sleeping")   # maps.cross: float32 array [layers, heads, target, source]

train, open and init give or prepare a Run; gradcheck compares gradients with finite differences; Graph has tensors and
autograd, every op by name. Mistakes raise qkv.Error with the sentence that the command prints. docs/python.md has more.
"""

from ._graph import Graph, GradientReport, Tensor, gradcheck
from ._library import Error, command, lib as _lib
from ._maps import Maps, Picture
from ._run import Parameters, Run, Translation, UnknownWords, init, open, train

__all__ = ["Error", "GradientReport", "Graph", "Maps", "Parameters", "Picture", "Run", "Tensor", "Translation", "UnknownWords",
           "command", "gradcheck", "init", "open", "train"]
__version__ = _lib.version().decode()
