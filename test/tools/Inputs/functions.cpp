#include "all.h"
#define OPENS {
// A brace in a comment: {
namespace shale {
namespace {
constexpr int kTable[] = {1, 2,
                          3};
struct Point {
  Point(int x) : x{x}, y(0) {
    const char *text = "a } in a string", quote = '}';
    use(text, quote);
  }
  int sum() const { return x + y; }
  bool operator()(const Point &other,
                  int unused = 0) const {
    return other.x == x;
  }
  int x, y;
};
} // namespace

template <typename T>
static int longest(std::initializer_list<int> list = {}) {
  auto lambda = [&](int x) {
    return x;
  };
  if (lambda(1)) {
    return R"(})"[0];
  }
#if 1
  use(kTable);
#endif
  return 0;
}
std::vector<int> all() { return {1, 2}; }
} // namespace shale
