// Gathers parameters piecewise to rank 0, which writes them.
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t chunkElements = 1 << 16;

/// Brings a piece to rank 0 and, there, hands its chunks to `use`.
template <typename Use>
void bring(const Piece &piece, int rank, const char *state,
           Communicator &communicator, std::vector<char> &buffer, Use use) {
  int64_t element = sizeOf(piece.type), count = piece.end - piece.begin;
  for (int64_t at = 0; at < count; at += chunkElements) {
    int64_t n = std::min(chunkElements, count - at);
    const char *data = state + piece.offset + at * element;
    if (piece.rank == 0) {
      if (rank == 0)
        use(data, n);
    } else if (rank == 0) {
      communicator.receive(piece.rank, buffer.data(), n * element);
      use(buffer.data(), n);
    } else if (rank == piece.rank) {
      communicator.send(0, data, n * element);
    }
  }
}
} // namespace

void exportModel(const ShaleProgram &program, int rank, const char *state,
                 Communicator &communicator, const std::string &path,
                 bool everyRole) {
  std::vector<Piece> pieces = piecesOf(program, /*spread=*/false);
  if (!everyRole)
    pieces.erase(std::remove_if(pieces.begin(), pieces.end(),
                                [](const Piece &piece) {
                                  return piece.role != SHALE_ROLE_PARAM;
                                }),
                 pieces.end());
  std::string temporary = path + format(".tmp-%d", (int)getpid());
  SafetensorsWriter writer;
  std::string trouble;
  // A full disk on rank 0 must not leave the others sending into the void: they
  // send everything, and learn of it at the end.
  auto attempt = [&](auto body) {
    if (!trouble.empty())
      return;
    try {
      body();
    } catch (const Error &error) {
      trouble = error.what();
    }
  };
  if (rank == 0)
    attempt([&] {
      for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece &piece = pieces[i];
        if (i > 0 && pieces[i - 1].parameter == piece.parameter &&
            pieces[i - 1].role == piece.role)
          continue;
        const ShaleParameter &parameter = program.parameters[piece.parameter];
        bool own = piece.role == SHALE_ROLE_PARAM;
        writer.declare(everyRole ? roleName(piece.role) +
                                       ("/" + std::string(parameter.name))
                                 : parameter.name,
                       own ? static_cast<Dtype>(parameter.type) : piece.type,
                       std::vector<int64_t>(parameter.dims,
                                            parameter.dims + parameter.rank));
      }
      writer.begin(temporary);
    });
  std::vector<char> buffer(chunkElements * 8), converted(chunkElements * 8);
  for (const Piece &piece : pieces) {
    Dtype type =
        piece.role == SHALE_ROLE_PARAM
            ? static_cast<Dtype>(program.parameters[piece.parameter].type)
            : piece.type;
    bring(piece, rank, state, communicator, buffer,
          [&](const char *data, int64_t n) {
            attempt([&] {
              convert(piece.type, data, type, converted.data(), n);
              writer.append(converted.data(), n * sizeOf(type));
            });
          });
  }
  if (rank == 0) {
    attempt([&] {
      writer.finish();
      if (rename(temporary.c_str(), path.c_str()) != 0)
        fail(SHALE_EXIT_IO, "cannot rename '%s' to '%s': %s", temporary.c_str(),
             path.c_str(), strerror(errno));
      syncFolder(parentOf(path));
    });
    if (!trouble.empty())
      unlink(temporary.c_str());
  }
  if (communicator.agree(!trouble.empty()))
    fail(SHALE_EXIT_IO, "%s",
         trouble.empty() ? "rank 0 could not write the model"
                         : trouble.c_str());
}

} // namespace shale::rt
