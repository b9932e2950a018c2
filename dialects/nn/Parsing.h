//===- Parsing.h - Custom directives of nn's assembly formats -------------===//
#ifndef SHALE_NN_PARSING_H
#define SHALE_NN_PARSING_H

#include "dialects/nn/NN.h"

namespace shale::nn {

/// `role = param`: the keyword of an enum case, without dialect prefix.
inline mlir::ParseResult parseRoleKeyword(mlir::OpAsmParser &parser, RoleAttr &role) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return mlir::failure();
  std::optional<Role> value = symbolizeRole(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown role '" << keyword << "'";
  role = RoleAttr::get(parser.getContext(), *value);
  return mlir::success();
}

inline void printRoleKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *, RoleAttr role) {
  printer << stringifyRole(role.getValue());
}

} // namespace shale::nn

#endif // SHALE_NN_PARSING_H
