"""usage: hostile_ir.py DIR: writes files of IR on which MLIR's parser crashes or takes minutes."""
import pathlib
import sys

EXTRACT = """llvm.func @f(%0: !llvm.struct<(i32, i64)>) {{
  %1 = {}
  llvm.return
}}
"""
GENERIC = '"{}"(%0) <{{position = array<i64: 4294967296>}}> : (!llvm.struct<(i32, i64)>) -> i32'


def affine(text):
    return f"#m = affine_map<(d0) -> ({text})>\n"


FILES = {
    "signs": affine("-" * 1000000 + "d0"),
    "sum": affine(" + ".join(["d0"] * 80000)),
    "nested": affine("(d0 + " * 100 + " + ".join(["d0"] * 950) + ")" * 100),
    "position": EXTRACT.format("llvm.extractvalue %0[4294967296] : !llvm.struct<(i32, i64)>"),
    "generic": EXTRACT.format(GENERIC.format("llvm.extractvalue")),
    # The name of the op is escaped, and found by the parser only.
    "escaped": EXTRACT.format(GENERIC.format("llvm.\\65xtractvalue").replace("4294967296", "4294967297")),
    "deep": "module {" * 250 + "}" * 250,
    "line": 'module attributes {a = "' + "a" * 20000000 + '"} wrong',
    "string": '#a = "' + "a" * 20000000,
    "fine": affine(" + ".join(["d0"] * 1000)) + "func.func private @fine() attributes {a = [4294967296, -1], m = #m, "
            + ", ".join(f"b{i} = -{i}.0" for i in range(1, 2000)) + "}\n"
            + "".join(f"#n{i} = affine_map<(d0) -> (d0 + {i}, -d0)>\n" for i in range(1200)),
}

for name, text in FILES.items():
    (pathlib.Path(sys.argv[1]) / f"{name}.mlir").write_text(text)
