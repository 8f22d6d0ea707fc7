"""Times the two halves of a sparse product on a Hopper GPU, apart: rows gathered into shared memory, and `wgmma` on
tiles that lie there. Prints JSON.

    python probes.py [--compile-only FOLDER]

Needs `nvcc` (12.4 or newer) and nothing else. The gathers copy random rows of 512 bytes (256 tokens of 16 bits) of a
matrix that fits the L2 cache or does not, by `cp.async` of 16 bytes, by one bulk copy a row, and by four TMA boxes a
row in the 128-byte swizzle. The products are m64n256k16 and m64n128k16 of bf16, both operands MN-major, in stages
of 64 of the reduction as the kernels have them: waiting for each stage, or with one under way; with registers
given up by an idle warpgroup (`setmaxnreg`), or not.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));               \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

constexpr int ROW = 512, ROWS = 64, STAGES = 4, THREADS = 256, STAGE = ROWS * ROW;
enum Mode { CP_ASYNC, BULK, TENSOR };

__device__ uint32_t shared(const void* at) { return uint32_t(__cvta_generic_to_shared(at)); }

template <int MODE>
__device__ void fill(char* ring, uint64_t* full, const char* x, const uint32_t* ids, const CUtensorMap* map, int step) {
    char* to = ring + step % STAGES * STAGE;
    ids += step * ROWS;
    if (MODE == CP_ASYNC) {
        for (int i = threadIdx.x; i < STAGE / 16; i += THREADS) {
            const char* from = x + size_t(ids[i / (ROW / 16)]) * ROW + i % (ROW / 16) * 16;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(to + i * 16)), "l"(from) : "memory");
        }
        return;
    }
    uint32_t barrier = shared(&full[step % STAGES]);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE) : "memory");
    if (threadIdx.x < 32) {
        __syncwarp();
        for (int row = threadIdx.x; row < ROWS; row += 32) {
            if (MODE == BULK) {
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                        shared(to + row * ROW)),
                    "l"(x + size_t(ids[row]) * ROW), "r"(ROW), "r"(barrier)
                    : "memory");
            } else {
                for (int span = 0; span < 4; span++)
                    asm volatile(
                        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                        "[%1, {%2, %3}], [%4];" ::"r"(shared(to + (span * ROWS + row) * 128)),
                        "l"(map), "r"(span * 64), "r"(ids[row]), "r"(barrier)
                        : "memory");
            }
        }
    }
}

template <int MODE>
__global__ void __launch_bounds__(THREADS) gather(const char* x, const uint32_t* ids, int steps, const __grid_constant__ CUtensorMap map, uint32_t* sink) {
    extern __shared__ __align__(1024) char ring[];
    __shared__ __align__(8) uint64_t full[STAGES];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&full[stage])) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    ids += size_t(blockIdx.x) * steps * ROWS;
    for (int step = 0; step < STAGES - 1; step++) {
        fill<MODE>(ring, full, x, ids, &map, step);
        if (MODE == CP_ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
    }
    uint32_t sum = 0;
    for (int step = 0; step < steps; step++) {
        if (MODE == CP_ASYNC) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        } else {
            uint32_t barrier = shared(&full[step % STAGES]), done = 0;
            while (!done)
                asm volatile(
                    "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done)
                    : "r"(barrier), "r"(step / STAGES % 2)
                    : "memory");
        }
        __syncthreads();
        sum += *(uint32_t*)(ring + step % STAGES * STAGE + threadIdx.x * 128);
        if (step + STAGES - 1 < steps) fill<MODE>(ring, full, x, ids, &map, step + STAGES - 1);
        if (MODE == CP_ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
    }
    sink[blockIdx.x * THREADS + threadIdx.x] = sum;
}

// Stages of the reduction that lie in shared memory, 64 deep each.
constexpr int RESIDENT = 2;

template <int GROUPS, int N, bool PENDING, bool GIVEN>
__global__ void __launch_bounds__(128 * (GROUPS + GIVEN)) multiply(int steps, float* sink) {
    extern __shared__ __align__(1024) char memory[];
    // Random quarters; zeros would draw less power.
    for (int i = threadIdx.x; i < RESIDENT * 64 * (64 * GROUPS + N); i += blockDim.x)
        ((__nv_bfloat16*)memory)[i] = __float2bfloat16(float(i * 2654435761u >> 29) / 4 - 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    int group = threadIdx.x / 128;
    if (GIVEN && group == GROUPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        return;
    }
    if (GIVEN) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N == 256 ? 232 : 160));
    float sums[N / 2] = {};
    // Columns of 64 elements lie a whole stage apart, eight of the reduction 1024 bytes: 128-byte swizzle.
    auto descriptor = [&](const char* at) {
        return uint64_t((shared(at) & 0x3FFFF) >> 4) | uint64_t(64 * 128 >> 4) << 16 | uint64_t(1024 >> 4) << 32 | 1ull << 62;
    };
    for (int step = 0; step < steps; step++) {
        const char* stage = memory + step % RESIDENT * 64 * 2 * (64 * GROUPS + N);
        uint64_t a = descriptor(stage + group * 64 * 128), b = descriptor(stage + GROUPS * 64 * 128);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < 4; k++) {
            if constexpr (N == 256) { WGMMA_256 } else { WGMMA_128 }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING ? 1 : 0) : "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float sum = 0;
    for (int i = 0; i < N / 2; i++) sum += sums[i];
    sink[blockIdx.x * 128 * GROUPS + threadIdx.x] = sum;
}

template <typename Launch>
double seconds(Launch launch) {
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int sample = 0; sample < 8; sample++) {
        CHECK(cudaEventRecord(start));
        launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, end));
        if (sample > 0) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] / 1e3;
}

template <int MODE>
void time_gather(const char* name, int processors, bool last) {
    const int steps = 512;
    for (int mib : {2, 16, 64, 256}) {
        size_t rows = (size_t(mib) << 20) / ROW;
        char* x;
        uint32_t *ids, *sink;
        size_t count = size_t(processors) * steps * ROWS;
        CHECK(cudaMalloc(&x, rows * ROW));
        CHECK(cudaMemset(x, 1, rows * ROW));
        CHECK(cudaMalloc(&ids, count * 4));
        CHECK(cudaMalloc(&sink, processors * THREADS * 4));
        std::mt19937 random(mib);
        std::vector<uint32_t> drawn(count);
        for (auto& id : drawn) id = random() % rows;
        CHECK(cudaMemcpy(ids, drawn.data(), count * 4, cudaMemcpyHostToDevice));
        CUtensorMap map;
        void* encode;
        cudaDriverEntryPointQueryResult found;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
        cuuint64_t sizes[] = {ROW / 2, rows}, strides[] = {ROW};
        cuuint32_t box[] = {64, 1}, steps_of[] = {1, 1};
        auto encoded = ((decltype(&cuTensorMapEncodeTiled))encode)(
            &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, x, sizes, strides, box, steps_of,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (encoded != CUDA_SUCCESS) fprintf(stderr, "no tensor map: %d\n", int(encoded)), exit(1);
        CHECK(cudaFuncSetAttribute(gather<MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE));
        double s = seconds([&] { gather<MODE><<<processors, THREADS, STAGES * STAGE>>>(x, ids, steps, map, sink); });
        printf("{\"gather\": \"%s\", \"mib\": %d, \"tb_s\": %.3f}%s\n", name, mib, count * double(ROW) / s / 1e12,
               last && mib == 256 ? "" : ",");
        CHECK(cudaFree(x));
        CHECK(cudaFree(ids));
        CHECK(cudaFree(sink));
    }
}

template <int GROUPS, int N, bool PENDING, bool GIVEN>
void time_multiply(int processors) {
    const int steps = 4096, bytes = RESIDENT * 64 * 2 * (64 * GROUPS + N);
    auto kernel = multiply<GROUPS, N, PENDING, GIVEN>;
    float* sink;
    CHECK(cudaMalloc(&sink, processors * 128 * GROUPS * 4));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    double s = seconds([&] { kernel<<<processors, 128 * (GROUPS + GIVEN), bytes>>>(steps, sink); });
    double flop = 2.0 * processors * steps * 64 * GROUPS * 64 * N;
    printf("{\"wgmma\": \"m64n%dk16\", \"warpgroups\": %d, \"pending\": %d, \"setmaxnreg\": %s, \"tflop_s\": %.1f},\n", N,
           GROUPS, int(PENDING), GIVEN ? "true" : "false", flop / s / 1e12);
    CHECK(cudaFree(sink));
}

int main() {
    cudaDeviceProp about;
    CHECK(cudaGetDeviceProperties(&about, 0));
    int processors = about.multiProcessorCount;
    printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"rows\": [\n", about.name, processors);
    time_multiply<1, 256, false, false>(processors);
    time_multiply<2, 256, false, false>(processors);
    time_multiply<2, 256, true, false>(processors);
    time_multiply<2, 256, false, true>(processors);
    time_multiply<2, 256, true, true>(processors);
    time_multiply<2, 128, false, false>(processors);
    time_multiply<2, 128, true, false>(processors);
    time_multiply<2, 128, true, true>(processors);
    time_gather<CP_ASYNC>("cp.async", processors, false);
    time_gather<BULK>("cp.async.bulk", processors, false);
    time_gather<TENSOR>("cp.async.bulk.tensor", processors, true);
    printf("]}\n");
}
"""


def wgmma(width):
    """One instruction; `sums` are its accumulators, `a` and `b` descriptors, 2048 bytes a step of 16."""
    count = width // 2
    registers = ", ".join(f"%{at}" for at in range(count))
    text = (
        "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.bf16.bf16 {{{registers}}}, "
        f"%{count}, %{count + 1}, p, 1, 1, 1, 1; }}"
    )
    sums = ", ".join(f'"+f"(sums[{at}])' for at in range(count))
    return f'asm volatile("{text}" : {sums} : "l"(a + k * 128), "l"(b + k * 128));'


def main():
    source = SOURCE.replace("WGMMA_256", wgmma(256)).replace("WGMMA_128", wgmma(128))
    with tempfile.TemporaryDirectory() as folder:
        keep = sys.argv[2] if sys.argv[1:2] == ["--compile-only"] else None
        folder = pathlib.Path(keep or folder)
        (folder / "probes.cu").write_text(source)
        command = ["nvcc", "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas=-v"]
        built = subprocess.run(
            [*command, folder / "probes.cu", "-o", folder / "probes"], capture_output=True, text=True
        )
        print(built.stderr, file=sys.stderr)
        if built.returncode != 0:
            raise SystemExit("nvcc failed")
        if keep is None:
            print(json.dumps(json.loads(subprocess.run([folder / "probes"], capture_output=True, text=True, check=True).stdout)))


main()
