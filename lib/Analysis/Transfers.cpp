//===- Transfers.cpp - Collectives in flight, over time -------------------===//
#include "lib/Analysis/Transfers.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace shale;

void Transfers::start(const Stream &stream, Transfer transfer) {
  Queue &queue = queues[stream];
  places[transfer.op] = {&queue};
  queue.posted.push_back(transfer);
  if (queue.posted.size() == 1)
    begin(queue);
}

double Transfers::finish(mlir::Operation *op) {
  auto place = places.find(op);
  if (place == places.end())
    return 0;
  while (place->second.done < 0)
    pass();
  return place->second.queue->done[place->second.done].end;
}

void Transfers::finish() {
  while (llvm::any_of(queues, [](const auto &each) { return !each.second.posted.empty(); }))
    pass();
}

void Transfers::expose(mlir::Operation *op, double since) {
  Place place = places.lookup(op);
  for (int64_t at = place.done; at >= 0 && place.queue->done[at].end > since; --at) {
    Transfer &each = place.queue->done[at];
    each.exposed += each.end - std::max(each.begin, since);
  }
}

void Transfers::begin(Queue &queue) {
  Transfer &first = queue.posted.front();
  first.begin = std::max(queue.free, first.posted);
  first.left = first.seconds;
}

/// Whether bytes of the queue are on the link now.
bool Transfers::sends(const Queue &queue) const {
  return !queue.posted.empty() && queue.posted.front().begin + queue.posted.front().latency <= now;
}

/// Lets time pass until a collective ends or sends its first byte.
void Transfers::pass() {
  int64_t sharing[2] = {0, 0};
  for (auto &[stream, queue] : queues)
    if (sends(queue))
      ++sharing[queue.posted.front().leavesNode];
  Queue *ending = nullptr;
  double until = std::numeric_limits<double>::infinity();
  for (auto &[stream, queue] : queues) {
    if (queue.posted.empty())
      continue;
    const Transfer &first = queue.posted.front();
    double at = sends(queue) ? now + first.left * double(sharing[first.leavesNode])
                             : first.begin + first.latency;
    if (at < until) {
      until = at;
      ending = sends(queue) ? &queue : nullptr;
    }
  }
  for (auto &[stream, queue] : queues)
    if (sends(queue)) {
      Transfer &first = queue.posted.front();
      double passed = (until - now) / double(sharing[first.leavesNode]);
      first.left = std::max(0.0, first.left - passed);
    }
  now = until;
  if (ending)
    end(*ending);
}

void Transfers::end(Queue &queue) {
  Transfer ended = queue.posted.front();
  queue.posted.pop_front();
  queue.free = ended.end = now;
  places[ended.op].done = int64_t(queue.done.size());
  queue.done.push_back(ended);
  if (!queue.posted.empty())
    begin(queue);
}
