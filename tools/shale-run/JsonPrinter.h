//===- JsonPrinter.h - A module as JSON -----------------------------------===//
#ifndef SHALE_TOOLS_SHALE_RUN_JSONPRINTER_H
#define SHALE_TOOLS_SHALE_RUN_JSONPRINTER_H

#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Prints a module as one line of JSON, for scripts that look at IR. The module and each op in it
/// are an object:
///
///   "op"          the name, such as "dist.all_gather"
///   "results"     an object for each result: its "name" and the keys of its type
///   "operands"    the names of values
///   "successors"  the names of blocks; only if the op has any
///   "location"    "name" (the node of the model), "file", "line" and "column"; what is known
///   "attributes"  an object; it includes the properties
///   "regions"     arrays of blocks: "name", "arguments" (objects as of results), and "ops"
///
/// A type has its text as "type". A type with a shape also has its "element" type and, if it has
/// a rank, its "shape"; null is a size that is not known.
///
/// An attribute is a number, a truth value (a unit attribute is true), a string, an array or an
/// object (a dictionary, or the keys of a type). Any other one, such as a symbol, a word of a
/// dialect or a number that JSON lacks, is a string of its text. A constant of more than 16
/// elements that are not all equal is the keys of its type. A string has the replacement character
/// in place of bytes that are not UTF-8.
///
/// A value or block has its name in `text`. If `text` lacks it, because the module was read from
/// bytecode, it has the name that a dump of the module would give it.
void printJson(mlir::ModuleOp module, const mlir::AsmParserState &text, mlir::raw_ostream &os);

} // namespace shale

#endif // SHALE_TOOLS_SHALE_RUN_JSONPRINTER_H
