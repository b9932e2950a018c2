# Configuration of Shale's lit suite. test/CMakeLists.txt passes the folders of the build.
import os
import lit.formats

config.name = "Shale"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Programs and numpy: threads of tests that run at once do not spin for each other (test/times/measure.cpp).
config.environment["OMP_WAIT_POLICY"] = "passive"
config.environment["OPENBLAS_NUM_THREADS"] = "1"
config.excludes = ["models", "unit", "bench", "plugin"]
config.test_source_root = os.path.dirname(__file__)
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input-filter=error"
# --param tools=DIR uses the tools of another build. Such a suite may run beside the usual one, so its tests have folders of their own.
other = [lit_config.params["tools"]] if "tools" in lit_config.params else []
config.test_exec_root = os.path.join(config.shale_build, "test", *["other-tools"] * len(other))
# Tools start as copies of a server (test/starts).
for name in ("SHALE_STARTS", "SHALE_STARTS_OWNER"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
starts = [os.path.join(config.shale_build, "test", "starts", "bin")] if "SHALE_STARTS" in os.environ else []
path = other + starts + [os.path.join(config.shale_build, "bin"), config.llvm_tools, config.environment.get("PATH", "")]
config.environment["PATH"] = os.path.pathsep.join(path)
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%source", os.path.dirname(config.test_source_root)))
config.substitutions.append(("%python", config.python))
# Without the CUDA toolkit, tests that assemble GPU kernels are unsupported, and lit counts them as such.
cuda = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
folders = [os.path.join(cuda, "bin")] if cuda else os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/cuda/bin"]
if all(any(os.access(os.path.join(folder, tool), os.X_OK) for folder in folders) for tool in ("ptxas", "fatbinary")):
    config.available_features.add("cuda-toolkit")
for name in ("CUDA_HOME", "CUDA_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Programs for GPUs run with the stand-ins of NVIDIA's libraries. Without the CUDA headers neither is built.
if os.path.exists(os.path.join(config.shale_build, "lib", "libshale_cuda_rt.a")):
    config.available_features.add("cuda-runtime")
# So does attention by cuDNN, without its headers and those of cudnn-frontend.
if os.path.exists(os.path.join(config.shale_build, "stubs", "libcudnn.so.9")):
    config.available_features.add("cudnn")
# What tools/check leaves to check-all.
if "SHALE_WHOLE" in os.environ:
    config.available_features.add("whole")
config.substitutions.append(("%stubs", os.path.join(config.shale_build, "stubs")))
config.substitutions.append(("%build", config.shale_build))
if config.sanitize:
    config.available_features.add("sanitize")
if os.path.exists(os.path.join(config.shale_build, "build.ninja")):
    config.available_features.add("ninja")
