"""What scripts that compare programs share: the names of the processor and of versions, the environment of PyTorch, the texts of a
run."""
import os
import pathlib
import subprocess

INSTRUCTION_SETS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8")


def processor():
    """Returns a sentence with the processor's name, family, model, cores and instruction sets, as lscpu reports them."""
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout
    except OSError:
        text = ""
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    flags = fields.get("Flags", "").split()
    has = [name for name in INSTRUCTION_SETS if name in flags]
    lacks = [name for name in INSTRUCTION_SETS if name not in flags]
    return (f"{fields.get('Model name', 'unknown processor')}, family {fields.get('CPU family', 'unknown')}, model "
            f"{fields.get('Model', 'unknown')}, {os.cpu_count()} processors; has {' '.join(has) or 'none'} of the "
            f"instruction sets asked for, not {' '.join(lacks)}")


def version_of(python, module, package=None):
    """Returns the version of a Python package (by default of the module's name), or None if the interpreter cannot import the
    module."""
    program = (f"import importlib.metadata, {module}\n"
               f"print(getattr({module}, '__version__', None) or importlib.metadata.version('{package or module}'))")
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    except OSError:
        return None
    return None if done.returncode else done.stdout.split()[-1]


def version_of_qkv(qkv):
    """Returns what `qkv --version` says about qkv, its kernels and OpenBLAS, on one line."""
    lines = subprocess.run([qkv, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()
    return "; ".join(lines).removeprefix("qkv ")


def find_library(pattern):
    """Returns the first file of that name in the folders of the system's libraries, or an empty string."""
    return next((str(path) for path in sorted(pathlib.Path("/usr/lib").glob(f"*/{pattern}"))), "")


def torch_environment(threads):
    """Returns the environment in which PyTorch is fastest: with tcmalloc if it is installed, and for several threads with the
    OpenBLAS that shares the threads of PyTorch, which Debian's uses (Debian: libtcmalloc-minimal4, libopenblas0-openmp)."""
    settings = {"LD_PRELOAD": find_library("libtcmalloc_minimal.so.4"), "OMP_NUM_THREADS": str(threads)}
    if threads > 1:
        settings["LD_LIBRARY_PATH"] = find_library("openblas-openmp")
    return os.environ | settings


def data_path(config, part):
    """Returns the path of the train or dev pairs in the complete config of a run, which may have a relative and an absolute one."""
    path = config["data"][part]
    return path if isinstance(path, str) else path[-1]
