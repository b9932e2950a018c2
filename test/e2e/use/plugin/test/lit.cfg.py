# Tests of the plug-in, with FileCheck, as Shale's own (docs/plugins.md):
#   lit -v test/e2e/use/plugin/test --param plugin=acme/acme.so
# The tools are those on the PATH.
import os
import lit.formats

config.name = "Acme"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
plugin = os.path.abspath(lit_config.params["plugin"])
config.test_exec_root = os.path.join(os.path.dirname(plugin), "test")
config.environment["PATH"] = os.environ["PATH"]
config.substitutions.append(("%acme", f"--load-pass-plugin={plugin}"))
