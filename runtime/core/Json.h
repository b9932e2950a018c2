// Reads JSON of files, whose depth is bounded before it is parsed.
#ifndef SHALE_RUNTIME_CORE_JSON_H
#define SHALE_RUNTIME_CORE_JSON_H

#include <nlohmann/json.hpp>
#include <string>

namespace shale::rt {

/// Parses one JSON value. nlohmann's functions recurse by level, so text with more than 32 levels
/// is refused first. Throws std::runtime_error or an exception of nlohmann's.
nlohmann::json parseJson(const std::string &text);

} // namespace shale::rt

#endif
