// manifest.json: {"body": {...}, "checksum": XXH3 of the body's text}. The body's `files` have the
// sizes of the files, and `checksums` those of their headers and of all their bytes. `xxh3` of a
// piece has the checksums of its chunks, 16 digits each; `parts` divides their rows if it is there.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Json.h"

#include <algorithm>

namespace shale::rt {

using nlohmann::json;

namespace {
/// Bounds of what is kept in memory: one piece, and all that is not pieces.
constexpr int64_t mostOfPiece = int64_t(64) << 20, mostOfRest = int64_t(256) << 20;

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

/// Reads the files of a checkpoint, with their checksums if it has them.
void parseFiles(const json &body, Manifest &manifest) {
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
}

/// Reads all but the pieces.
Manifest parseBody(const std::string &folder, const json &body) {
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
  if (body.contains("data")) // missing in older files
    for (const json &file : body.at("data"))
      manifest.position.data.push_back({file.at("name").get<std::string>(),
                                        natural(file.at("bytes")), natural(file.at("rows")),
                                        fromHex(file.at("hash").get<std::string>())});
  if (body.contains("run"))
    manifest.position.run = body.at("run").get<std::string>();
  manifest.position.folder = folder;
  for (const json &object : body.at("parameters")) {
    StoredParameter parameter;
    parameter.name = object.at("name").get<std::string>();
    parameter.type = typeOf(object.at("dtype"));
    for (const json &size : object.at("shape"))
      parameter.shape.push_back(natural(size));
    manifest.parameters.push_back(parameter);
  }
  parseFiles(body, manifest);
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
  if (const json &bytes = object.at("chunk_bytes"); bytes != 0)
    share.chunkBytes = chunkBytesFrom(bytes);
  else
    share.chunkBytes = 0;
  for (const json &piece : object.at("pieces"))
    share.pieces.push_back(pieceFrom(piece, share.chunkBytes));
  for (const json &file : object.at("files"))
    share.files.push_back({file.at(0).get<std::string>(), natural(file.at(1)), natural(file.at(2)),
                           bitsOf(file.at(3)), bitsOf(file.at(4))});
  return share;
}

/// Returns all but the pieces.
static json bodyOf(const ShaleProgram &program, const Manifest &manifest) {
  json body = {{"format", "shale-checkpoint"},         {"version", chunkVersion},
               {"chunk_bytes", manifest.chunkBytes},   {"step", manifest.position.step},
               {"updates", manifest.position.updates}, {"data_row", manifest.position.row},
               {"seed", manifest.position.seed},       {"model", baseName(program.model)},
               {"strategy", program.strategy},         {"optimizer", program.optimizer},
               {"world_size", program.world_size},     {"flags", manifest.position.flags}};
  if (const NormHistory &norms = manifest.position.norms; norms.count > 0)
    body["norms"] = {{"count", norms.count}, {"mean", norms.mean}, {"skipped", norms.skipped}};
  json data = json::array();
  for (const DataFile &file : manifest.position.data)
    data.push_back({{"name", file.name},
                    {"bytes", file.bytes},
                    {"rows", file.rows},
                    {"hash", hex(file.hash)}});
  body["data"] = data;
  if (!manifest.position.run.empty())
    body["run"] = manifest.position.run;
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
  body["pieces"] = json::array();
  return body;
}

Manifest parseHead(const std::string &folder, const std::string &text) {
  return parseBody(folder, parseJson(text));
}

ManifestWriter::ManifestWriter(const ShaleProgram &program, const Manifest &manifest, Sink sink,
                               int64_t most)
    : sink(std::move(sink)), most(most) {
  json body = bodyOf(program, manifest);
  // The texts of the file and of its checksum, around the pieces.
  std::string compact = body.dump(), pretty = json({{"body", body}}).dump(1);
  const std::string emptyList = "\n  \"pieces\": []", compactList = "\"pieces\":[]";
  size_t at = pretty.find(emptyList) + emptyList.size() - 1;
  size_t compactAt = compact.find(compactList) + compactList.size() - 1;
  tail = pretty.substr(at, pretty.size() - at - 2); // without the end of the whole
  compactTail = compact.substr(compactAt);
  sum.add(compact.data(), compactAt);
  put(pretty.substr(0, at));
}

void ManifestWriter::put(const std::string &text) {
  written += static_cast<int64_t>(text.size());
  if (written > most)
    fail(SHALE_EXIT_IO,
         "the manifest of the checkpoint would have more than %lld bytes, which a run that resumes "
         "does not read, after %lld pieces: shard over fewer ranks, or pass --checkpoint full",
         (long long)most, (long long)pieces);
  sink(text);
}

void ManifestWriter::add(const StoredPiece &piece) {
  json object = toJson(piece);
  std::string compact = (pieces > 0 ? "," : "") + object.dump(), pretty;
  for (char c : object.dump(1)) {
    pretty += c;
    if (c == '\n')
      pretty += "   ";
  }
  if (static_cast<int64_t>(pretty.size()) > mostOfPiece)
    fail(
        SHALE_EXIT_IO,
        "the checksums of '%s' take more than the %lld bytes of a manifest that a run which resumes "
        "reads",
        printable(piece.parameter).c_str(), (long long)mostOfPiece);
  sum.add(compact.data(), compact.size());
  put((pieces > 0 ? ",\n   " : "\n   ") + pretty);
  ++pieces;
}

void ManifestWriter::finish() {
  sum.add(compactTail.data(), compactTail.size());
  put((pieces > 0 ? "\n  " : "") + tail + ",\n \"checksum\": \"" + hex(sum.value()) + "\"\n}\n");
}

std::string manifestText(const ShaleProgram &program, const Manifest &manifest) {
  std::string text;
  ManifestWriter writer(program, manifest, [&](const std::string &part) { text += part; });
  for (const StoredPiece &piece : manifest.pieces)
    writer.add(piece);
  writer.finish();
  return text;
}

namespace {
/// Reads manifest.json line by line. A line has as many spaces as levels around it, and one after
/// the colon of a key: the text without them is that of the checksum.
class Scanner {
public:
  Scanner(const std::string &path, const std::string &folder, const PieceVisitor &visit)
      : lines(path, mostOfPiece), bytes(InputFile(path).size()), folder(folder), visit(visit) {}

  Manifest run() {
    if (next() != "{" || next() != "\"body\":{" || level != 2)
      malformed();
    rest = "{";
    sum.add("{", 1);
    std::string line = next();
    for (; level > 1; line = next()) {
      addToSum(line);
      rest += line;
      if (rest.size() > static_cast<size_t>(mostOfRest))
        throw std::runtime_error("it is too long");
      if (level == 3 && line == "\"pieces\":[")
        rest += readPieces(rest + "]}");
    }
    sum.add("}", 1);
    if (line != "},")
      malformed();
    std::string last = next();
    const std::string key = "\"checksum\":";
    if (level != 1 || last != key + "\"" + hex(sum.value()) + "\"" || next() != "}" ||
        read != bytes)
      throw std::runtime_error("its checksum does not match");
    rest += "}";
    json body = parseJson(rest);
    Manifest manifest = parseBody(folder, body);
    // Pieces were checked against what came before them.
    if (wasRead ? body.at("files") != files || manifest.chunkBytes != head.chunkBytes
                : !body.at("pieces").empty())
      malformed();
    return manifest;
  }

  /// The body without pieces.
  std::string rest;

private:
  [[noreturn]] static void malformed() { throw std::runtime_error("it has another form"); }
  void addToSum(const std::string &line) { sum.add(line.data(), line.size()); }

  /// Returns the next line without its spaces.
  std::string next() {
    if (!lines.next(text))
      throw std::runtime_error("it is not whole");
    read += static_cast<int64_t>(text.size()) + 1;
    size_t start = std::min(text.find_first_not_of(' '), text.size());
    bool closes = start < text.size() && (text[start] == '}' || text[start] == ']');
    level -= closes;
    if (start != static_cast<size_t>(level))
      throw std::runtime_error("its lines are not indented by their levels");
    bool opens = !text.empty() && (text.back() == '{' || text.back() == '[');
    level += opens;
    size_t colon = text[start] == '"' ? text.find("\": ", start + 1) : std::string::npos;
    if (colon != std::string::npos)
      text.erase(colon + 2, 1);
    return text.substr(start);
  }

  /// Reads up to the end of the list, which it returns. `before`: the body as far as it was read.
  std::string readPieces(const std::string &before) {
    if (wasRead)
      malformed();
    json body = parseJson(before);
    head.chunkBytes = body.contains("chunk_bytes") ? chunkBytesFrom(body.at("chunk_bytes")) : 0;
    parseFiles(body, head);
    files = body.at("files");
    wasRead = true;
    std::string item;
    bool hasNext = true;
    for (std::string line = next();; line = next()) {
      addToSum(line);
      if (level == 2 && (hasNext || !item.empty()))
        malformed();
      if (level == 2)
        return line;
      bool isLast = level == 3 && line == "}", isNext = level == 3 && line == "},";
      item += isNext ? "}" : line;
      if (item.size() > static_cast<size_t>(mostOfPiece))
        throw std::runtime_error("a piece is too long");
      if (!isLast && !isNext)
        continue;
      StoredPiece piece = readPiece(item);
      visit(std::move(piece), head.chunkBytes);
      item.clear();
      hasNext = isNext;
    }
  }

  StoredPiece readPiece(const std::string &item) const {
    try {
      StoredPiece piece = pieceFrom(parseJson(item), head.chunkBytes);
      checkPiece(head, piece);
      return piece;
    } catch (const std::exception &error) {
      if (head.chunkBytes != 0)
        throw;
      throw std::runtime_error(error.what() + std::string(" (there is no chunk_bytes)"));
    }
  }

  LineReader lines;
  int64_t bytes, read = 0;
  int level = 0; // of arrays and objects around the next line
  std::string text;
  const std::string &folder;
  const PieceVisitor &visit;
  Checksum sum;
  Manifest head; // the files and the bytes of a chunk
  json files;
  bool wasRead = false;
};
} // namespace

Manifest scanManifest(const std::string &folder, const PieceVisitor &visit, std::string *head) {
  std::string path = folder + "/manifest.json";
  try {
    if (int64_t bytes = InputFile(path).size(); bytes > mostOfManifest)
      fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, more than the %lld it may have", path.c_str(),
           (long long)bytes, (long long)mostOfManifest);
    Scanner scanner(path, folder, visit);
    Manifest manifest = scanner.run();
    if (head)
      *head = std::move(scanner.rest);
    return manifest;
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_DATA, "'%s' is damaged: %s", path.c_str(),
         printable(error.what(), 1000).c_str());
  }
}

Manifest parseManifest(const std::string &folder) {
  std::vector<StoredPiece> pieces;
  Manifest manifest = scanManifest(
      folder, [&](StoredPiece &&piece, int64_t) { pieces.push_back(std::move(piece)); });
  manifest.pieces = std::move(pieces);
  return manifest;
}

void checkStoredFile(const Manifest &manifest, const WrittenFile &stored) {
  InputFile file(manifest.position.folder + "/" + stored.name);
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

Manifest readManifest(const std::string &folder) {
  Manifest manifest = parseManifest(folder);
  for (const auto &[name, stored] : manifest.files)
    checkStoredFile(manifest, stored);
  return manifest;
}

} // namespace shale::rt
