// manifest.json: {"body": {...}, "checksum": XXH3 of the body's text}.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shale::rt {

using nlohmann::json;

namespace {
constexpr int64_t manifestLimit = int64_t(1) << 30;

std::string hex(uint64_t value) { return format("%016llx", (unsigned long long)value); }

uint64_t fromHex(const std::string &text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw std::runtime_error("a checksum is not 16 hexadecimal digits");
  return std::strtoull(text.c_str(), nullptr, 16);
}

Dtype typeOf(const json &value) {
  Dtype type;
  if (!dtypeNamed(value.get<std::string>(), type))
    throw std::runtime_error("unknown dtype");
  return type;
}

/// Reads a number of the manifest. All are counts and offsets: never negative.
int64_t natural(const json &value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw std::runtime_error("a count is not a natural number");
  return value.get<int64_t>();
}

json toJson(const StoredPiece &piece) {
  return {
      {"parameter", piece.parameter}, {"role", piece.role},         {"dtype", nameOf(piece.type)},
      {"begin", piece.begin},         {"end", piece.end},           {"file", piece.file},
      {"offset", piece.offset},       {"xxh3", hex(piece.checksum)}};
}

StoredPiece pieceFrom(const json &object) {
  StoredPiece piece;
  piece.parameter = object.at("parameter").get<std::string>();
  piece.role = object.at("role").get<std::string>();
  piece.type = typeOf(object.at("dtype"));
  piece.begin = natural(object.at("begin"));
  piece.end = natural(object.at("end"));
  piece.file = object.at("file").get<std::string>();
  piece.offset = natural(object.at("offset"));
  piece.checksum = fromHex(object.at("xxh3").get<std::string>());
  return piece;
}

void checkPiece(const Manifest &manifest, const StoredPiece &piece) {
  auto file = manifest.files.find(piece.file);
  int64_t bytes = 0;
  if (file == manifest.files.end() || piece.begin > piece.end ||
      __builtin_mul_overflow(piece.end - piece.begin, sizeOf(piece.type), &bytes) ||
      piece.offset > file->second || bytes > file->second - piece.offset)
    throw std::runtime_error("a piece of '" + piece.parameter + "' is not inside its file");
}

Manifest parse(const std::string &folder, const std::string &text) {
  json whole = json::parse(text);
  const json &body = whole.at("body");
  std::string bodyText = body.dump();
  if (fromHex(whole.at("checksum").get<std::string>()) !=
      XXH3_64bits(bodyText.data(), bodyText.size()))
    throw std::runtime_error("its checksum does not match");
  if (body.at("format") != "shale-checkpoint" || body.at("version") != 1)
    throw std::runtime_error("it is not of format shale-checkpoint, version 1");
  Manifest manifest;
  manifest.position.step = natural(body.at("step"));
  // Older files do not count updates: none was skipped.
  manifest.position.updates =
      body.contains("updates") ? natural(body.at("updates")) : manifest.position.step;
  if (manifest.position.updates > manifest.position.step)
    throw std::runtime_error("it has more updates than steps");
  manifest.position.row = natural(body.at("data_row"));
  manifest.position.seed = body.at("seed").get<uint64_t>();
  if (body.contains("flags")) // missing in older files
    for (const auto &[flag, value] : body.at("flags").items())
      manifest.position.flags[flag] = value.get<std::string>();
  manifest.position.folder = folder;
  for (const json &object : body.at("parameters")) {
    StoredParameter parameter;
    parameter.name = object.at("name").get<std::string>();
    parameter.type = typeOf(object.at("dtype"));
    for (const json &size : object.at("shape"))
      parameter.shape.push_back(natural(size));
    manifest.parameters.push_back(parameter);
  }
  for (const auto &[name, size] : body.at("files").items()) {
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos)
      throw std::runtime_error("it names a file outside its folder");
    manifest.files[name] = natural(size);
  }
  for (const json &object : body.at("pieces")) {
    manifest.pieces.push_back(pieceFrom(object));
    checkPiece(manifest, manifest.pieces.back());
  }
  return manifest;
}
} // namespace

std::string packPieces(const std::vector<StoredPiece> &pieces) {
  json list = json::array();
  for (const StoredPiece &piece : pieces)
    list.push_back(toJson(piece));
  return list.dump();
}

std::vector<StoredPiece> unpackPieces(const std::string &text) {
  std::vector<StoredPiece> pieces;
  for (const json &object : json::parse(text))
    pieces.push_back(pieceFrom(object));
  return pieces;
}

std::string manifestText(const ShaleProgram &program, const Manifest &manifest) {
  json body = {{"format", "shale-checkpoint"},      {"version", 1},
               {"step", manifest.position.step},    {"updates", manifest.position.updates},
               {"data_row", manifest.position.row}, {"seed", manifest.position.seed},
               {"model", baseName(program.model)},  {"strategy", program.strategy},
               {"optimizer", program.optimizer},    {"world_size", program.world_size},
               {"flags", manifest.position.flags}};
  json axes = json::array();
  for (int a = 0; a < program.axis_count; ++a)
    axes.push_back({{"name", program.axes[a].name}, {"size", program.axes[a].size}});
  body["axes"] = axes;
  json parameters = json::array();
  for (int p = 0; p < program.parameter_count; ++p) {
    const ShaleParameter &parameter = program.parameters[p];
    parameters.push_back(
        {{"name", parameter.name},
         {"dtype", nameOf(static_cast<Dtype>(parameter.type))},
         {"shape", std::vector<int64_t>(parameter.dims, parameter.dims + parameter.rank)}});
  }
  body["parameters"] = parameters;
  body["files"] = json(manifest.files);
  json pieces = json::array();
  for (const StoredPiece &piece : manifest.pieces)
    pieces.push_back(toJson(piece));
  body["pieces"] = pieces;
  std::string text = body.dump();
  json whole = {{"body", body}, {"checksum", hex(XXH3_64bits(text.data(), text.size()))}};
  return whole.dump(1) + "\n";
}

Manifest readManifest(const std::string &folder) {
  std::string path = folder + "/manifest.json";
  std::string text = readText(path, manifestLimit);
  Manifest manifest;
  try {
    manifest = parse(folder, text);
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_DATA, "'%s' is damaged: %s", path.c_str(), error.what());
  }
  for (const auto &[name, size] : manifest.files) {
    InputFile file(folder + "/" + name);
    if (file.size() != size)
      fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, the manifest says %lld", file.path().c_str(),
           (long long)file.size(), (long long)size);
  }
  return manifest;
}

Checksum::Checksum() : state(XXH3_createState()) {
  if (!state)
    throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t *>(state));
}

Checksum::~Checksum() { XXH3_freeState(static_cast<XXH3_state_t *>(state)); }

void Checksum::add(const void *data, int64_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t *>(state), data, bytes);
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(static_cast<XXH3_state_t *>(state)); }

} // namespace shale::rt
