/* Reads the tables of a compiled program as C sees them and calls its step with
 * a runtime that only says what it is asked. */
#include "shale/Runtime.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ShaleRank {
  int64_t coordinate;
};
static char state[1 << 16], arena[1 << 16];

static const char *place(const void *pointer) {
  static char text[4][64];
  static int next;
  char *to = text[next++ % 4];
  const char *p = pointer;
  if (p >= state && p < state + sizeof state)
    snprintf(to, 64, "state+%d", (int)(p - state));
  else if (p >= arena && p < arena + sizeof arena)
    snprintf(to, 64, "arena+%d", (int)(p - arena));
  else
    snprintf(to, 64, "elsewhere");
  return to;
}

void shale_note(ShaleRank *rank, const char *node) {
  (void)rank;
  (void)node;
}

void shale_launch(ShaleRank *rank, const ShaleLaunch *launch) {
  printf("launch %s rows %d grain %d on the %s:", launch->name, (int)launch->rows,
         (int)launch->grain, launch->space == SHALE_SPACE_HOST ? "host" : "device");
  ((ShaleKernel)launch->kernel)(launch->args, 0, launch->rows);
  (void)rank;
}
void shale_gemm(ShaleRank *rank, const ShaleGemm *g) {
  printf("gemm %d %d %d of %dx%dx%d type %d to %d %s/%d %s/%d %s%s/%d\n", g->transpose_a,
         g->transpose_b, (int)g->batch, (int)g->m, (int)g->n, (int)g->k, g->type, g->result_type,
         place(g->a), (int)g->lda, place(g->b), (int)g->ldb, g->accumulate ? "added to " : "",
         place(g->c), (int)g->ldc);
  (void)rank;
}
void shale_copy(ShaleRank *rank, void *target, const void *source, int64_t bytes) {
  printf("copy %s to %s, %d bytes\n", place(source), place(target), (int)bytes);
  memcpy(target, source, bytes);
  (void)rank;
}
void shale_zero(ShaleRank *rank, void *target, int64_t bytes) {
  printf("zero %s, %d bytes\n", place(target), (int)bytes);
  memset(target, 0, bytes);
  (void)rank;
}
void shale_start(ShaleRank *rank, int32_t site, const void *send, void *recv, int64_t count,
                 int32_t type) {
  static const char *const kinds[] = {"all-gather", "reduce-scatter", "all-reduce"};
  printf("%s site %d %s to %s count %d type %d\n", kinds[shale_program.sites[site].kind], site,
         place(send), place(recv), (int)count, type);
  (void)rank;
}
void shale_wait(ShaleRank *rank, int32_t site) {
  printf("wait %d\n", site);
  (void)rank;
}
const void *shale_constants(ShaleRank *rank) {
  (void)rank;
  return shale_program.constants;
}
int64_t shale_coordinate(ShaleRank *rank, int32_t axis) {
  return axis == 0 ? rank->coordinate : -1;
}
void shale_store_coordinate(ShaleRank *rank, int32_t axis, int64_t *target) {
  *target = shale_coordinate(rank, axis);
  printf("coordinate on axis %d to %s\n", axis, place(target));
}

void kernel_update(void *const *args, int64_t begin, int64_t end) {
  printf(" update(%s, %s, lr %g) to %s [%d, %d)\n", place(args[0]), place(args[1]),
         *(float *)args[2], place(args[3]), (int)begin, (int)end);
  *(float *)args[4] = 2.5f;
}

/* Of the file's bytes, by xxHash itself. */
static int64_t hashed(const ShaleInit *init) {
  char bytes[SHALE_HASHED_BYTES];
  FILE *file = init->file ? fopen(init->file, "rb") : NULL;
  if (!file)
    return 0;
  fseek(file, init->offset, SEEK_SET);
  size_t n =
      fread(bytes, 1, init->length < SHALE_HASHED_BYTES ? init->length : SHALE_HASHED_BYTES, file);
  fclose(file);
  return (int64_t)XXH3_64bits(bytes, n);
}

int main(void) {
  const ShaleProgram *p = &shale_program;
  printf("abi %d world %d model %s target %s host %s strategy %s optimizer %s describe %s\n",
         p->abi_version, p->world_size, p->model, p->target, p->host, p->strategy, p->optimizer,
         p->describe);
  for (int i = 0; i < p->axis_count; ++i)
    printf("axis %s %d splits batch %d\n", p->axes[i].name, (int)p->axes[i].size,
           p->axes[i].splits_batch);
  for (int i = 0; i < p->parameter_count; ++i) {
    const ShaleParameter *q = &p->parameters[i];
    printf("parameter %s type %d count %d trained %d dims", q->name, q->type, (int)q->count,
           q->trained);
    for (int d = 0; d < q->rank; ++d)
      printf(" %d", (int)q->dims[d]);
    for (const char *const *alias = q->aliases; alias && *alias; ++alias)
      printf(" alias %s", *alias);
    printf(" init %d transposed %d fill %g file %d size %d offset %d length %d\n", q->init.kind,
           q->init.transposed, q->init.fill, q->init.file ? q->init.file[0] == '/' : -1,
           (int)q->init.file_size, (int)q->init.offset, (int)q->init.length);
    printf("  buffer %d hash %s mean %g deviation %g\n", q->buffer,
           q->init.hash == hashed(&q->init) ? "right" : "wrong", q->init.mean, q->init.deviation);
  }
  for (int i = 0; i < p->group_count; ++i) {
    const ShaleGroup *g = &p->groups[i];
    printf("group %s count %d", g->name, (int)g->count);
    for (int s = 0; s < g->segment_count; ++s)
      printf(" [%d offset %d count %d]", g->segments[s].parameter, (int)g->segments[s].offset,
             (int)g->segments[s].count);
    printf("\n");
  }
  for (int i = 0; i < p->state_count; ++i)
    printf("state group %d role %d type %d axis %d offset %d count %d\n", p->states[i].group,
           p->states[i].role, p->states[i].type, p->states[i].axis, (int)p->states[i].offset,
           (int)p->states[i].local_count);
  for (int i = 0; i < p->input_count; ++i)
    printf("input %s from %d type %d rank %d first %d batch %d bound %d\n", p->inputs[i].name,
           p->inputs[i].binding, p->inputs[i].type, p->inputs[i].rank, (int)p->inputs[i].dims[0],
           p->inputs[i].batch_dim, (int)p->inputs[i].bound);
  for (int i = 0; i < p->hyper_count; ++i) {
    printf("hyper %s source %d base %d default %g from %g to %g%s: %s\n", p->hyper[i].name,
           p->hyper[i].source, p->hyper[i].base, p->hyper[i].value, p->hyper[i].low,
           p->hyper[i].high, p->hyper[i].high_excluded ? " excluded" : "", p->hyper[i].text);
    if (p->hyper[i].fixed)
      printf(" fixed by the file\n");
    if (p->hyper[i].base >= 0)
      printf(" t from %d by %d\n", (int)p->hyper[i].first, (int)p->hyper[i].step);
  }
  for (int i = 0; i < p->slot_count; ++i)
    printf("slot %s\n", p->slots[i]);
  for (int i = 0; i < p->foreign_flag_count; ++i)
    printf("foreign %s\n", p->foreign_flags[i]);
  for (int i = 0; i < p->metric_count; ++i)
    printf("metric %s\n", p->metrics[i]);
  for (int i = 0; i < p->eval_metric_count; ++i)
    printf("eval metric %s\n", p->eval_metrics[i]);
  for (int i = 0; i < p->site_count; ++i)
    printf("site %s kind %d axis %d bytes %d\n", p->sites[i].name, p->sites[i].kind,
           p->sites[i].axis, (int)p->sites[i].sent_bytes);
  int64_t sum = 0;
  for (int i = 0; i < p->plan_line_count; ++i) {
    printf("line %d %s %lld\n", p->plan[i].category, p->plan[i].what, (long long)p->plan[i].bytes);
    sum += p->plan[i].bytes;
  }
  for (int i = 0; i < p->buffer_count; ++i)
    printf("buffer %s %d space %d block %d offset %d bytes %d padding %d\n", p->buffers[i].name,
           p->buffers[i].category, p->buffers[i].space, p->buffers[i].block,
           (int)p->buffers[i].offset, (int)p->buffers[i].bytes, (int)p->buffers[i].padding);
  for (int i = 0; i < p->kernel_count; ++i) {
    const ShaleKernelOperands *k = &p->kernels[i];
    printf("kernel %s:", k->name);
    for (int o = 0; o < k->operand_count; ++o)
      printf("%s %d of type %d", o ? "," : "", (int)k->operands[o].count, k->operands[o].type);
    printf("\n");
  }
  printf("limits %d %d\n", (int)p->host_limit, (int)p->total_limit);
  printf("state %d arena %d scratch %d tokens %d evaluate %d sum %d\n", (int)p->state_bytes,
         (int)p->arena_bytes, (int)p->comm_scratch_bytes, (int)p->tokens_per_step,
         p->evaluate != NULL, sum > 0);
  ShaleRank rank = {1};
  int64_t tokens[8] = {0};
  const void *inputs[] = {tokens};
  float hyper[] = {0.125f, 0, 0, 0}, metrics[] = {0};
  p->step(&rank, state, arena, inputs, hyper, metrics);
  printf("loss %g\n", metrics[0]);
  return 0;
}
