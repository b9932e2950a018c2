// Gathers parameters in pieces on rank 0, which writes them.
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t chunkElements = 1 << 16;

/// A tensor to write: pieces of the state, or a range of a file.
struct Tensor {
  std::string name;
  Dtype type;
  std::vector<int64_t> shape;
  int64_t bytes;
  std::vector<Piece> pieces;
  const KeptTensor *kept = nullptr;
};

/// Returns the tensors to write. The list is the same on every rank except for kept
/// tensors, which only rank 0 has and no rank sends.
std::vector<Tensor> tensorsOf(const ShaleProgram &program, const ExportOptions &options) {
  std::vector<Tensor> tensors;
  for (const Piece &piece : piecesOf(program, /*spread=*/false)) {
    bool param = piece.role == SHALE_ROLE_PARAM;
    const ShaleParameter &parameter = program.parameters[piece.parameter];
    if (param == options.optimizer || (param && parameter.buffer == 2 && !options.whole))
      continue;
    if (!tensors.empty() && tensors.back().pieces[0].parameter == piece.parameter &&
        tensors.back().pieces[0].role == piece.role) {
      tensors.back().pieces.push_back(piece);
      continue;
    }
    Tensor tensor;
    tensor.name =
        param ? parameter.name : std::string(roleName(program, piece.role)) + "/" + parameter.name;
    tensor.type = param ? static_cast<Dtype>(parameter.type) : piece.type;
    if (piece.whole == parameter.count)
      tensor.shape.assign(parameter.dims, parameter.dims + parameter.rank);
    else
      tensor.shape = {piece.whole};
    tensor.bytes = piece.whole * sizeOf(tensor.type);
    tensor.pieces = {piece};
    tensors.push_back(std::move(tensor));
  }
  // The other names of tied parameters follow: safetensors does not allow shared bytes.
  for (size_t i = 0, n = tensors.size(); i < n && !options.optimizer; ++i) {
    const ShaleParameter &parameter = program.parameters[tensors[i].pieces[0].parameter];
    for (auto alias = parameter.aliases; alias && *alias; ++alias) {
      tensors.push_back(tensors[i]);
      tensors.back().name = *alias;
    }
  }
  for (const KeptTensor &kept : options.kept)
    tensors.push_back({kept.name, kept.type, kept.shape, kept.bytes, {}, &kept});
  return tensors;
}

/// Assigns consecutive tensors to files of at most `most` bytes.
std::vector<std::vector<const Tensor *>> filesOf(const std::vector<Tensor> &tensors, int64_t most) {
  std::vector<std::vector<const Tensor *>> files(1);
  int64_t bytes = 0;
  for (const Tensor &tensor : tensors) {
    if (!files.back().empty() && bytes + tensor.bytes > most) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(&tensor);
    bytes += tensor.bytes;
  }
  return files;
}

/// Sends the elements [begin, end) of a piece's box to rank 0, which gets them in `buffer`. At most
/// chunkElements.
void bring(const Piece &piece, int64_t begin, int64_t end, int rank, const StateReader &state,
           Peers &peers, std::vector<char> &buffer) {
  int64_t element = sizeOf(piece.type), bytes = (end - begin) * element;
  if (rank == piece.rank)
    state.read(piece.offset + (begin - piece.begin) * element, buffer.data(), bytes);
  else if (rank == 0)
    peers.receive(piece.rank, buffer.data(), bytes);
  if (rank != 0 && rank == piece.rank)
    peers.send(0, buffer.data(), bytes);
}

/// Brings the pieces of a tensor to rank 0, chunk by chunk in the order of its elements. Rank 0
/// passes each chunk to `use`.
template <typename Use>
void bringAll(const Tensor &tensor, int rank, const StateReader &state, Peers &peers,
              std::vector<char> &buffer, std::vector<char> &chunk, Use use) {
  if (tensor.pieces.empty())
    return;
  Dtype type = tensor.pieces[0].type;
  int64_t element = sizeOf(type), whole = tensor.pieces[0].whole;
  for (int64_t at = 0; at < whole; at += chunkElements) {
    int64_t n = std::min(chunkElements, whole - at);
    for (const Piece &piece : tensor.pieces) {
      int64_t first = std::max(piece.begin, piece.box.below(at));
      int64_t last = std::min(piece.end, piece.box.below(at + n));
      // Once, unless the piece has padding.
      for (int64_t begin = first; begin < last; begin += chunkElements) {
        int64_t end = std::min(last, begin + chunkElements);
        bring(piece, begin, end, rank, state, peers, buffer);
        if (rank == 0)
          forRuns(piece.box, begin, end, [&](int64_t local, int64_t global, int64_t count) {
            std::memcpy(chunk.data() + (global - at) * element,
                        buffer.data() + (local - begin) * element, count * element);
          });
      }
    }
    if (rank == 0)
      use(type, chunk.data(), n);
  }
}

void copyKept(const KeptTensor &kept, SafetensorsWriter &writer, std::vector<char> &buffer) {
  InputFile file(kept.file);
  int64_t most = buffer.size();
  for (int64_t at = 0; at < kept.bytes; at += most) {
    int64_t n = std::min(most, kept.bytes - at);
    file.readAt(kept.offset + at, buffer.data(), n);
    writer.append(buffer.data(), n);
  }
}

/// Removes files of this name that an earlier export in another form left.
void removeOthers(const std::string &folder, const std::string &base,
                  const std::vector<std::string> &names) {
  for (const std::string &name : listFolder(folder)) {
    bool ours = name == base + ".safetensors" ||
                (name.compare(0, base.size() + 1, base + "-") == 0 &&
                 name.find("-of-") != std::string::npos && name.size() > 12 &&
                 name.compare(name.size() - 12, 12, ".safetensors") == 0);
    if (ours && std::find(names.begin(), names.end(), name) == names.end())
      unlink((folder + "/" + name).c_str());
  }
  if (names.size() == 1)
    unlink((folder + "/" + base + ".safetensors.index.json").c_str());
}
} // namespace

std::vector<WrittenFile> exportTensors(const ShaleProgram &program, int rank,
                                       const StateReader &state, Peers &peers,
                                       const ExportOptions &options) {
  std::vector<Tensor> tensors = tensorsOf(program, options);
  if (tensors.empty())
    return {};
  std::vector<std::vector<const Tensor *>> files = filesOf(tensors, options.fileBytes);
  const std::string base = options.optimizer ? "optimizer" : "model";
  std::string trouble;
  // If rank 0 cannot write, the other ranks still send everything and get the error at
  // the end.
  auto onFirst = [&](const auto &body) {
    if (rank == 0)
      attempt(trouble, body);
  };
  // Pieces, and chunks of them in the type of the file.
  std::vector<char> buffer(chunkElements * 8), chunk(buffer.size());
  std::vector<std::string> names, temporaries;
  std::vector<WrittenFile> written;
  nlohmann::ordered_json index = {{"metadata", nlohmann::json::object()},
                                  {"weight_map", nlohmann::json::object()}};
  int64_t total = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    names.push_back(files.size() == 1 ? base + ".safetensors"
                                      : format("%s-%05zu-of-%05zu.safetensors", base.c_str(), f + 1,
                                               files.size()));
    temporaries.push_back(temporaryName(options.folder + "/" + names[f]));
    SafetensorsWriter writer;
    onFirst([&] {
      for (const Tensor *tensor : files[f])
        writer.declare(tensor->name, tensor->type, tensor->shape);
      writer.begin(temporaries[f]);
    });
    for (const Tensor *tensor : files[f]) {
      index["weight_map"][tensor->name] = names[f];
      total += tensor->bytes;
      if (tensor->kept)
        onFirst([&] { copyKept(*tensor->kept, writer, buffer); });
      bringAll(*tensor, rank, state, peers, buffer, chunk,
               [&](Dtype type, const char *data, int64_t n) {
                 onFirst([&] {
                   convert(type, data, tensor->type, buffer.data(), n);
                   writer.append(buffer.data(), n * sizeOf(tensor->type));
                 });
               });
    }
    onFirst([&] { written.push_back(writer.finish(names[f])); });
  }
  onFirst([&] {
    for (size_t f = 0; f < files.size(); ++f)
      renameFile(temporaries[f], options.folder + "/" + names[f]);
    index["metadata"]["total_size"] = total;
    if (files.size() > 1) {
      std::string name = base + ".safetensors.index.json", text = index.dump(2) + "\n";
      replaceFile(options.folder + "/" + name, text);
      written.push_back(
          {name, static_cast<int64_t>(text.size()), 0, checksumOf(""), checksumOf(text)});
    }
    removeOthers(options.folder, base, names);
  });
  if (!trouble.empty())
    for (const std::string &temporary : temporaries)
      unlink(temporary.c_str());
  if (peers.agree(!trouble.empty()))
    fail(SHALE_EXIT_IO, "%s",
         trouble.empty() ? "rank 0 could not write the model" : trouble.c_str());
  return written;
}

} // namespace shale::rt
