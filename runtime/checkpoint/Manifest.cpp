// manifest.json: {"body": {...}, "checksum": XXH3 of the body's text}. The body's `files` have the
// sizes of the files, and `checksums` those of their headers and of all their bytes. `xxh3` of a
// piece has the checksums of its chunks, 16 digits each; `parts` divides their rows if it is there.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Json.h"

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

std::string hexOf(const std::vector<uint64_t> &sums) {
  std::string text;
  for (uint64_t sum : sums)
    text += hex(sum);
  return text;
}

Dtype typeOf(const json &value) {
  Dtype type;
  if (!dtypeNamed(value.get<std::string>(), type))
    throw std::runtime_error("unknown dtype");
  return type;
}

/// Reads a number of 64 bits. get() would also convert a fraction, or a negative number.
uint64_t bitsOf(const json &value) {
  if (!value.is_number_unsigned())
    throw std::runtime_error("a number is not one of 64 bits");
  return value.get<uint64_t>();
}

/// Reads a number of the manifest. All are counts and offsets: never negative.
int64_t natural(const json &value, int64_t most = INT64_MAX) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(most))
    throw std::runtime_error(format("a count is not a number from 0 to %lld", (long long)most));
  return value.get<int64_t>();
}

json toJson(const StoredPiece &piece) {
  json object = {
      {"parameter", piece.parameter}, {"role", piece.role},       {"dtype", nameOf(piece.type)},
      {"begin", piece.begin},         {"end", piece.end},         {"file", piece.file},
      {"offset", piece.offset},       {"xxh3", hexOf(piece.sums)}};
  if (piece.chunks.parts > 1)
    object["parts"] = {{"row", piece.chunks.row}, {"count", piece.chunks.parts}};
  if (!piece.box.isWhole())
    object["box"] = {
        {"shape", piece.box.dims}, {"start", piece.box.start}, {"size", piece.box.size}};
  return object;
}

/// The most dimensions of a box, and of elements of its parameter.
constexpr size_t mostDimensions = 32;
constexpr int64_t mostElements = int64_t(1) << 56;

Box boxFrom(const json &object) {
  Box box;
  int64_t count = 1;
  for (const json &size : object.at("shape")) {
    box.dims.push_back(natural(size));
    if (box.dims.size() > mostDimensions ||
        __builtin_mul_overflow(count, box.dims.back(), &count) || count > mostElements)
      throw std::runtime_error("the shape of a box is too large");
  }
  for (const json &start : object.at("start"))
    box.start.push_back(natural(start));
  for (const json &size : object.at("size"))
    box.size.push_back(natural(size));
  size_t rank = box.dims.size();
  bool fits = rank > 0 && box.start.size() == rank && box.size.size() == rank;
  for (size_t d = 0; d < rank && fits; ++d) {
    bool mayPass = rank > 1 && d + 1 == rank; // the end: padding
    fits = box.start[d] <= box.dims[d] && box.size[d] <= box.dims[d] - (mayPass ? 0 : box.start[d]);
  }
  if (!fits)
    throw std::runtime_error("a box is not inside its parameter");
  return box;
}

/// Returns the division of a piece, whose `begin` and `end` are known. `chunkBytes`: 0 if the piece
/// is one chunk.
Chunks chunksFrom(const json &object, const StoredPiece &piece, int64_t chunkBytes) {
  Chunks chunks;
  if (chunkBytes == 0) {
    chunks.elements = std::max<int64_t>(piece.end - piece.begin, 1);
    return chunks;
  }
  chunks.elements = chunkBytes / sizeOf(piece.type);
  if (object.contains("parts")) {
    chunks.row = natural(object.at("parts").at("row"), mostElements);
    chunks.parts = natural(object.at("parts").at("count"), mostParts);
    if (chunks.row == 0 || chunks.parts == 0 || chunks.row % chunks.parts != 0)
      throw std::runtime_error("the parts of a row are not equal");
  }
  return chunks;
}

/// Reads the checksums of a piece. Their text, not the piece's size, bounds what is allocated.
std::vector<uint64_t> sumsFrom(const json &object, const StoredPiece &piece) {
  constexpr size_t digits = 16;
  std::string text = object.at("xxh3").get<std::string>();
  size_t chunks = piece.chunks.of(piece.end - piece.begin);
  if (text.size() % digits != 0 || text.size() / digits % piece.chunks.parts != 0 ||
      text.size() / digits / piece.chunks.parts != chunks)
    throw std::runtime_error(format("a piece of '%s' has %zu digits of checksums for %zu chunks",
                                    printable(piece.parameter).c_str(), text.size(), chunks));
  std::vector<uint64_t> sums;
  for (size_t at = 0; at < text.size(); at += digits)
    sums.push_back(fromHex(text.substr(at, digits)));
  return sums;
}

/// Reads the bytes of a chunk. A whole number of elements of each type fits into it.
int64_t chunkBytesFrom(const json &value) {
  constexpr int64_t least = 64, most = int64_t(1) << 30;
  int64_t bytes = natural(value, most);
  if (bytes < least || bytes % least != 0)
    throw std::runtime_error(format("a chunk of %lld bytes is not a multiple of %lld",
                                    (long long)bytes, (long long)least));
  return bytes;
}

StoredPiece pieceFrom(const json &object, int64_t chunkBytes) {
  StoredPiece piece;
  piece.parameter = object.at("parameter").get<std::string>();
  piece.role = object.at("role").get<std::string>();
  piece.type = typeOf(object.at("dtype"));
  if (object.contains("box"))
    piece.box = boxFrom(object.at("box"));
  piece.begin = natural(object.at("begin"));
  piece.end = natural(object.at("end"));
  piece.file = object.at("file").get<std::string>();
  piece.offset = natural(object.at("offset"));
  if (piece.begin > piece.end)
    throw std::runtime_error("a piece of '" + printable(piece.parameter) +
                             "' ends before it begins");
  piece.chunks = chunksFrom(object, piece, chunkBytes);
  piece.sums = sumsFrom(object, piece);
  return piece;
}

void checkPiece(const Manifest &manifest, const StoredPiece &piece) {
  auto file = manifest.files.find(piece.file);
  int64_t bytes = 0;
  if (file == manifest.files.end() || (!piece.box.isWhole() && piece.end > piece.box.count()) ||
      __builtin_mul_overflow(piece.end - piece.begin, sizeOf(piece.type), &bytes) ||
      piece.offset > file->second.bytes || bytes > file->second.bytes - piece.offset)
    throw std::runtime_error("a piece of '" + printable(piece.parameter) +
                             "' is not inside its file");
}

std::string textOf(const json &whole) { return whole.dump(1) + "\n"; }

/// The most steps that a run may have, and the most rows of data: what is added to them does not
/// overflow.
constexpr int64_t mostSteps = int64_t(9'000'000'000'000'000), mostRows = int64_t(1) << 60;

/// The versions: pieces of older programs have one checksum each and, from version 2 on, boxes.
constexpr int oldestVersion = 1, chunkVersion = 3;

/// Reads the format and the version. Returns the bytes of a chunk, or 0: a piece is one chunk.
int64_t parseFormat(const json &body) {
  const json &version = body.at("version");
  if (body.at("format") != "shale-checkpoint" || !version.is_number_unsigned() ||
      version < oldestVersion || version > chunkVersion)
    throw std::runtime_error(format("it is not of format shale-checkpoint, version %d to %d",
                                    oldestVersion, chunkVersion));
  return version < chunkVersion ? 0 : chunkBytesFrom(body.at("chunk_bytes"));
}

Manifest parse(const std::string &folder, const std::string &text) {
  json whole = parseJson(text);
  const json &body = whole.at("body");
  if (fromHex(whole.at("checksum").get<std::string>()) != checksumOf(body.dump()) ||
      text != textOf(whole))
    throw std::runtime_error("its checksum does not match");
  Manifest manifest;
  manifest.chunkBytes = parseFormat(body);
  manifest.position.step = natural(body.at("step"), mostSteps);
  // Older files do not count updates: none was skipped.
  manifest.position.updates =
      body.contains("updates") ? natural(body.at("updates")) : manifest.position.step;
  if (manifest.position.updates > manifest.position.step)
    throw std::runtime_error("it has more updates than steps");
  manifest.position.row = natural(body.at("data_row"), mostRows);
  if (body.contains("norms")) { // with --skip-spikes
    NormHistory &norms = manifest.position.norms;
    norms.count = natural(body.at("norms").at("count"));
    norms.mean = body.at("norms").at("mean").get<double>();
    norms.skipped = natural(body.at("norms").at("skipped"));
    if (!(norms.mean >= 0) || norms.skipped > norms.count)
      throw std::runtime_error("its history of norms is not possible");
  }
  manifest.position.seed = bitsOf(body.at("seed"));
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
    manifest.files[name] = {name, natural(size)};
  }
  if (body.contains("checksums")) // missing in older files
    for (auto &[name, file] : manifest.files) {
      const json &sums = body.at("checksums").at(name);
      file.headerBytes = natural(sums.at("header_bytes"), file.bytes);
      file.header = fromHex(sums.at("header").get<std::string>());
      file.whole = fromHex(sums.at("whole").get<std::string>());
      manifest.sums = true;
    }
  for (const json &object : body.at("pieces")) {
    manifest.pieces.push_back(pieceFrom(object, manifest.chunkBytes));
    checkPiece(manifest, manifest.pieces.back());
  }
  return manifest;
}
} // namespace

std::string packShare(const Share &share) {
  json pieces = json::array(), files = json::array();
  for (const StoredPiece &piece : share.pieces)
    pieces.push_back(toJson(piece));
  for (const WrittenFile &file : share.files)
    files.push_back({file.name, file.bytes, file.headerBytes, file.header, file.whole});
  return json({{"chunk_bytes", share.chunkBytes}, {"pieces", pieces}, {"files", files}}).dump();
}

Share unpackShare(const std::string &text) {
  Share share;
  json object = parseJson(text);
  share.chunkBytes = chunkBytesFrom(object.at("chunk_bytes"));
  for (const json &piece : object.at("pieces"))
    share.pieces.push_back(pieceFrom(piece, share.chunkBytes));
  for (const json &file : object.at("files"))
    share.files.push_back({file.at(0).get<std::string>(), natural(file.at(1)), natural(file.at(2)),
                           bitsOf(file.at(3)), bitsOf(file.at(4))});
  return share;
}

std::string manifestText(const ShaleProgram &program, const Manifest &manifest) {
  json body = {{"format", "shale-checkpoint"},         {"version", chunkVersion},
               {"chunk_bytes", manifest.chunkBytes},   {"step", manifest.position.step},
               {"updates", manifest.position.updates}, {"data_row", manifest.position.row},
               {"seed", manifest.position.seed},       {"model", baseName(program.model)},
               {"strategy", program.strategy},         {"optimizer", program.optimizer},
               {"world_size", program.world_size},     {"flags", manifest.position.flags}};
  if (const NormHistory &norms = manifest.position.norms; norms.count > 0)
    body["norms"] = {{"count", norms.count}, {"mean", norms.mean}, {"skipped", norms.skipped}};
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
  json files = json::object(), sums = json::object();
  for (const auto &[name, file] : manifest.files) {
    files[name] = file.bytes;
    sums[name] = {{"header_bytes", file.headerBytes},
                  {"header", hex(file.header)},
                  {"whole", hex(file.whole)}};
  }
  body["files"] = files;
  if (manifest.sums)
    body["checksums"] = sums;
  json pieces = json::array();
  for (const StoredPiece &piece : manifest.pieces)
    pieces.push_back(toJson(piece));
  body["pieces"] = pieces;
  return textOf({{"body", body}, {"checksum", hex(checksumOf(body.dump()))}});
}

Manifest parseManifest(const std::string &folder) {
  std::string path = folder + "/manifest.json";
  std::string text = readText(path, manifestLimit);
  try {
    return parse(folder, text);
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_DATA, "'%s' is damaged: %s", path.c_str(),
         printable(error.what(), 1000).c_str());
  }
}

Manifest readManifest(const std::string &folder) {
  Manifest manifest = parseManifest(folder);
  for (const auto &[name, stored] : manifest.files) {
    InputFile file(folder + "/" + name);
    if (file.size() != stored.bytes)
      fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, the manifest says %lld", file.path().c_str(),
           (long long)file.size(), (long long)stored.bytes);
    std::string header(stored.headerBytes, '\0');
    file.readAt(0, header.data(), stored.headerBytes);
    if (manifest.sums && checksumOf(header) != stored.header)
      fail(SHALE_EXIT_DATA,
           "'%s' is damaged: the checksum of its header, bytes 0 to %lld, does not match",
           file.path().c_str(), (long long)stored.headerBytes - 1);
  }
  return manifest;
}

} // namespace shale::rt
