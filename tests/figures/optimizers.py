"""Makes optimizers.h: where PyTorch's optimizers take fixed numbers. Run: python3 optimizers.py > optimizers.h

The problem is two parameters of COUNT numbers in all. Its gradients do not depend on the parameters, so that each
update is one formula applied to known numbers; all of it is float64. The test computes the same start and gradients
from the formulas below.
"""
import math

import torch

COUNT, UPDATES = 7, 25

CASES = [  # name, kind, learning rate, further settings
    ("adam", "ADAM", 0.01, dict(betas=(0.9, 0.999), eps=1e-8)),
    ("adam_decay", "ADAM", 0.02, dict(betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1)),
    ("adam_large_epsilon", "ADAM", 0.05, dict(betas=(0.5, 0.9), eps=0.1)),
    ("adamw", "ADAMW", 0.02, dict(betas=(0.9, 0.999), eps=1e-8, weight_decay=0.3)),
    ("adamw_no_decay", "ADAMW", 0.02, dict(betas=(0.8, 0.99), eps=1e-6, weight_decay=0.0)),
    ("sgd", "SGD", 0.1, dict(momentum=0.0)),
    ("sgd_momentum", "SGD", 0.05, dict(momentum=0.9)),
    ("sgd_momentum_decay", "SGD", 0.05, dict(momentum=0.8, weight_decay=0.2)),
    ("sgd_nesterov", "SGD", 0.05, dict(momentum=0.9, weight_decay=0.1, nesterov=True)),
]
CLASSES = {"ADAM": torch.optim.Adam, "ADAMW": torch.optim.AdamW, "SGD": torch.optim.SGD}


def start(i):
    return (i - 3) / 2.0


def gradient(i, update):
    """Signs change, sizes span four powers of ten, and number 5 has none at first."""
    if i == 5 and update < 4:
        return 0.0
    return (((i * 7 + update * 5) % 11) - 5) / 4.0 * 10.0 ** ((i % 4) - 3)


def trained(kind, learning_rate, settings):
    parameters = [torch.tensor([start(i) for i in part], dtype=torch.float64)
                  for part in (range(0, 4), range(4, COUNT))]
    optimizer = CLASSES[kind](parameters, lr=learning_rate, **settings)
    for update in range(1, UPDATES + 1):
        parameters[0].grad = torch.tensor([gradient(i, update) for i in range(0, 4)], dtype=torch.float64)
        parameters[1].grad = torch.tensor([gradient(i, update) for i in range(4, COUNT)], dtype=torch.float64)
        optimizer.step()
    return torch.cat(parameters).tolist()


print("/* Made by optimizers.py with PyTorch %s. Do not edit. */\n/* clang-format off */" % torch.__version__.split("+")[0])
print("enum { FIGURE_COUNT = %d, FIGURE_UPDATES = %d };\n" % (COUNT, UPDATES))
print("/* The parameters after FIGURE_UPDATES. */")
print("static const struct {\n    const char *name;\n    enum qkv_optimizer_kind kind;")
print("    double learning_rate, betas[2], epsilon, momentum, weight_decay;\n    bool nesterov;")
print("    double values[FIGURE_COUNT];\n} FIGURES[] = {")
for name, kind, rate, settings in CASES:
    betas = settings.get("betas", (0.9, 0.999))
    print('    {"%s", QKV_OPTIMIZER_%s, %r, {%r, %r}, %r, %r, %r, %s,' % (
        name, kind, rate, betas[0], betas[1], settings.get("eps", 1e-8), settings.get("momentum", 0.0),
        settings.get("weight_decay", 0.0), str(settings.get("nesterov", False)).lower()))
    row = trained(kind, rate, settings)
    assert all(math.isfinite(x) for x in row)
    print("     {%s,\n      %s}}," % (", ".join(repr(x) for x in row[:4]), ", ".join(repr(x) for x in row[4:])))
print("};")
