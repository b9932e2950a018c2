// Attention as plain loops in f64, with bars for results that pass through 16-bit floats.
#ifndef SHALE_TEST_EMULATION_ATTENTIONREFERENCE_H
#define SHALE_TEST_EMULATION_ATTENTIONREFERENCE_H

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace shale::stub::test {

/// [batch, heads, length, depth], without gaps.
struct Tensor4 {
  int64_t batch = 0, heads = 0, length = 0, depth = 0;
  std::vector<double> values;

  Tensor4() = default;
  Tensor4(int64_t batch, int64_t heads, int64_t length, int64_t depth)
      : batch(batch), heads(heads), length(length), depth(depth),
        values(batch * heads * length * depth) {}
  double &at(int64_t b, int64_t h, int64_t t, int64_t i) {
    return values[((b * heads + h) * length + t) * depth + i];
  }
  double at(int64_t b, int64_t h, int64_t t, int64_t i) const {
    return values[((b * heads + h) * length + t) * depth + i];
  }
};

/// The results of attention in f64, with bounds of the errors of output and gradients. They allow
/// for one rounding to 16 bits, with unit roundoff `unit`, of each of these: the probabilities and
/// the gradients of the scores before they are multiplied, the gradients of keys and values per
/// query head, and every result. All else is computed in f32, with errors below kF32 of the sum of
/// magnitudes.
struct AttentionReference {
  static constexpr double kF32 = 2e-5;

  Tensor4 query, key, value, outputGradient; // inputs
  bool causal;
  int64_t window = 0; // 0: none
  double scale, unit;
  Tensor4 output, lse, queryGradient, keyGradient, valueGradient;
  Tensor4 outputBar, queryBar, keyBar, valueBar;

  void compute() {
    output = outputBar = Tensor4(query.batch, query.heads, query.length, value.depth);
    lse = Tensor4(query.batch, query.heads, query.length, 1);
    queryGradient = queryBar = like(query);
    keyGradient = keyBar = like(key);
    valueGradient = valueBar = like(value);
    for (int64_t b = 0; b < query.batch; ++b)
      for (int64_t h = 0; h < query.heads; ++h) {
        forward(b, h);
        backward(b, h);
      }
    finish(queryBar, queryGradient);
    finish(keyBar, keyGradient);
    finish(valueBar, valueGradient);
  }

private:
  static Tensor4 like(const Tensor4 &t) { return Tensor4(t.batch, t.heads, t.length, t.depth); }

  /// Adds the rounding of the result itself.
  void finish(Tensor4 &bar, const Tensor4 &result) const {
    for (size_t i = 0; i < bar.values.size(); ++i)
      bar.values[i] += 1.01 * unit * std::abs(result.values[i]);
  }

  int64_t keyHead(int64_t h) const { return h / (query.heads / key.heads); }
  bool sees(int64_t t, int64_t s) const {
    int64_t last = t + key.length - query.length;
    return (!causal || s <= last) && (window == 0 || last - s < window);
  }

  void forward(int64_t b, int64_t h) {
    int64_t g = keyHead(h);
    probabilities.assign(query.length * key.length, 0);
    for (int64_t t = 0; t < query.length; ++t) {
      double *row = &probabilities[t * key.length], largest = -INFINITY, sum = 0;
      for (int64_t s = 0; s < key.length; ++s)
        if (sees(t, s)) {
          for (int64_t i = 0; i < query.depth; ++i)
            row[s] += query.at(b, h, t, i) * key.at(b, g, s, i);
          row[s] *= scale;
          largest = std::max(largest, row[s]);
        }
      for (int64_t s = 0; s < key.length; ++s)
        sum += row[s] = sees(t, s) ? std::exp(row[s] - largest) : 0;
      for (int64_t s = 0; s < key.length; ++s)
        row[s] /= sum;
      lse.at(b, h, t, 0) = largest + std::log(sum);
      for (int64_t i = 0; i < value.depth; ++i) {
        double magnitude = 0, &result = output.at(b, h, t, i);
        for (int64_t s = 0; s < key.length; ++s) {
          result += row[s] * value.at(b, g, s, i);
          magnitude += row[s] * std::abs(value.at(b, g, s, i));
        }
        outputBar.at(b, h, t, i) = (unit + kF32) * magnitude + 1.01 * unit * std::abs(result);
      }
    }
  }

  void backward(int64_t b, int64_t h) {
    int64_t g = keyHead(h);
    bool grouped = key.heads != query.heads;
    Tensor4 keyPart(1, 1, key.length, key.depth), valuePart(1, 1, key.length, value.depth);
    for (int64_t t = 0; t < query.length; ++t) {
      // The output is read in 16 bits.
      double dot = 0, dotBar = 0;
      for (int64_t i = 0; i < value.depth; ++i) {
        double matmul = outputGradient.at(b, h, t, i) * output.at(b, h, t, i);
        dot += matmul;
        dotBar += (1.01 * unit + kF32) * std::abs(matmul);
      }
      for (int64_t s = 0; s < key.length; ++s) {
        double p = probabilities[t * key.length + s], matmul = 0, magnitude = 0;
        if (p == 0)
          continue;
        for (int64_t i = 0; i < value.depth; ++i) {
          double gradient = outputGradient.at(b, h, t, i);
          valuePart.at(0, 0, s, i) += p * gradient;
          valueBar.at(b, g, s, i) += (1.01 * unit + kF32) * p * std::abs(gradient);
          matmul += gradient * value.at(b, g, s, i);
          magnitude += std::abs(gradient * value.at(b, g, s, i));
        }
        double score = scale * p * (matmul - dot);
        double scoreBar = scale * p * (dotBar + kF32 * (magnitude + std::abs(dot))) +
                          1.01 * unit * std::abs(score);
        for (int64_t i = 0; i < query.depth; ++i) {
          queryGradient.at(b, h, t, i) += score * key.at(b, g, s, i);
          queryBar.at(b, h, t, i) +=
              (scoreBar + kF32 * std::abs(score)) * std::abs(key.at(b, g, s, i));
          keyPart.at(0, 0, s, i) += score * query.at(b, h, t, i);
          keyBar.at(b, g, s, i) +=
              (scoreBar + kF32 * std::abs(score)) * std::abs(query.at(b, h, t, i));
        }
      }
    }
    for (int64_t s = 0; s < key.length; ++s) {
      for (int64_t i = 0; i < key.depth; ++i) {
        keyGradient.at(b, g, s, i) += keyPart.at(0, 0, s, i);
        keyBar.at(b, g, s, i) += grouped * 1.01 * unit * std::abs(keyPart.at(0, 0, s, i));
      }
      for (int64_t i = 0; i < value.depth; ++i) {
        valueGradient.at(b, g, s, i) += valuePart.at(0, 0, s, i);
        valueBar.at(b, g, s, i) += grouped * 1.01 * unit * std::abs(valuePart.at(0, 0, s, i));
      }
    }
  }

  std::vector<double> probabilities; // of one head
};

} // namespace shale::stub::test

#endif
