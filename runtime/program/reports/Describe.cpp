// --describe: describes the program without running it.
#include "runtime/program/reports/Describe.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/comm/Collectives.h"
#include "runtime/core/AbiWords.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"
#include "runtime/data/Inputs.h"

#include <map>

namespace shale::rt {

static std::string dimsOf(const int64_t *dims, int rank) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d)
    text += (d ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}

std::string meshText(const ShaleProgram &program) {
  std::string text;
  for (int a = 0; a < program.axis_count; ++a)
    text +=
        format("%s%s=%lld", a ? "," : "", program.axes[a].name, (long long)program.axes[a].size);
  return text.empty() ? "one rank" : text;
}

static std::string parameterTable(const ShaleProgram &program) {
  std::string text;
  int64_t count = 0, total = 0, trained = 0;
  for (int p = 0; p < program.parameter_count; ++p) {
    if (!isWeight(program, p))
      continue;
    const ShaleParameter &parameter = program.parameters[p];
    ++count;
    total += parameter.count;
    trained += parameter.trained ? parameter.count : 0;
    std::string names;
    for (auto alias = parameter.aliases; alias && *alias; ++alias)
      names += " = " + printable(*alias);
    text +=
        format("  %-5s %-18s %s%s%s\n", nameOf(static_cast<Dtype>(parameter.type)),
               dimsOf(parameter.dims, parameter.rank).c_str(), printable(parameter.name).c_str(),
               names.c_str(), parameter.trained ? "" : " (not trained)");
  }
  return format("parameters: %lld with %lld elements, %lld trained\n", (long long)count,
                (long long)total, (long long)trained) +
         text;
}

static std::string planTable(const ShaleProgram &program) {
  std::string text = "memory plan of a rank, bytes:\n";
  std::map<std::string, int64_t> sums;
  bool host = program.host_state_bytes || program.host_arena_bytes;
  for (int i = 0; i < program.plan_line_count; ++i) {
    const ShalePlanLine &line = program.plan[i];
    sums[spaceText(line.space)] += line.bytes;
    text +=
        format("  %-14s %15lld  %s%s\n", textOf(kCategories, line.category), (long long)line.bytes,
               host ? format("%s: ", spaceText(line.space)).c_str() : "", line.what);
  }
  int64_t sum = 0;
  for (const auto &[space, bytes] : sums) {
    sum += bytes;
    if (host)
      text += format("  peak, %-8s %15lld\n", space.c_str(), (long long)bytes);
  }
  return text + format("  %-14s %15lld\n", "peak", (long long)sum);
}

static std::string bufferTable(const ShaleProgram &program) {
  std::string text = "buffers: space, offset, bytes, padding of these, category, name\n";
  std::map<std::string, std::pair<int64_t, int64_t>> sums;
  for (int i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    auto &sum = sums[textOf(kCategories, buffer.category)];
    sum.first += buffer.bytes;
    sum.second += buffer.padding;
    text += format("  %-10s %13lld %13lld %8lld  %-13s %s\n", placeText(buffer).c_str(),
                   (long long)buffer.offset, (long long)buffer.bytes, (long long)buffer.padding,
                   textOf(kCategories, buffer.category), printable(buffer.name).c_str());
  }
  for (const auto &[category, sum] : sums)
    text += format("  sum        %13s %13lld %8lld  %s\n", "", (long long)sum.first,
                   (long long)sum.second, category.c_str());
  return text;
}

std::string describe(const ShaleProgram &program) {
  std::string text =
      format("program: %s, %lld rank(s), mesh %s, shard %s, optimizer %s, target %s\n",
             program.model, (long long)meshSize(program), meshText(program).c_str(),
             program.strategy, program.optimizer, program.target);
  Counted counted = countedOf(program);
  text += format("%s per step: %lld; state %lld bytes, arena %lld bytes per rank\n", counted.unit(),
                 (long long)counted.perStep, (long long)program.state_bytes,
                 (long long)program.arena_bytes);
  if (program.accumulate > 1)
    text += format("micro-batches per step: %d\n", program.accumulate);
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    const char *binding = textOf(kBindings, input.binding);
    text += format("input: %s %s %s per rank%s%s\n", printable(input.name).c_str(),
                   nameOf(static_cast<Dtype>(input.type)), dimsOf(input.dims, input.rank).c_str(),
                   *binding ? ", from " : "", binding);
  }
  text += parameterTable(program);
  if (program.site_count > 0) {
    text += "collectives: kind, axis, bytes sent per rank and call, calls per step, first of those "
            "exchanged together, what\n";
    for (int i = 0; i < program.site_count; ++i) {
      const ShaleSite &site = program.sites[i];
      text += format("  %-14s %-8s %13lld %4lld %5d  %s\n",
                     kindName(static_cast<ShaleCollectiveKind>(site.kind)),
                     axisName(program, site.axis), (long long)site.sent_bytes,
                     (long long)site.times, site.bucket, printable(site.name).c_str());
    }
  }
  if (program.transfer_count > 0)
    text += "copies between device and host: to, bytes, times per step, what\n";
  for (int64_t i = 0; i < program.transfer_count; ++i) {
    const ShaleTransfer &copy = program.transfers[i];
    bool named = copy.node && *copy.node;
    text += format("  %-6s %13lld %4lld  %s%s%s\n", copy.to_host ? "host" : "device",
                   (long long)copy.bytes, (long long)copy.times, printable(copy.name).c_str(),
                   named ? ", node " : "", named ? printable(copy.node).c_str() : "");
  }
  text += planTable(program);
  text += bufferTable(program);
  if (program.describe && *program.describe)
    text += program.describe;
  return text;
}

} // namespace shale::rt
