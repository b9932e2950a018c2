# Configuration of Shale's lit suite. test/CMakeLists.txt passes the build's folders.
import os
import lit.formats

config.name = "Shale"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["models", "unit", "bench"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.shale_build, "test")
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input-filter=error"
path = [os.path.join(config.shale_build, "bin"), config.llvm_tools, config.environment.get("PATH", "")]
config.environment["PATH"] = os.path.pathsep.join(path)
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%source", os.path.dirname(config.test_source_root)))
config.substitutions.append(("%python", config.python))
