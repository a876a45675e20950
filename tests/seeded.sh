#!/bin/sh
# SPDX-License-Identifier: MIT
# Seeds mistakes that the CUDA code once had, or might have, one at a time into a copy of the tree. Each must make the
# emulation's tests fail (make seeded; takes minutes, not part of make test). Arguments: names of mistakes; none: all.
set -u
root=$(pwd)
t=${SEEDED_DIR:-$root/build/seeded}
mkdir -p "$t"
n=0 missed=0
mistake() { # name, file, sed expression, program, description
    name=$1 file=$2 edit=$3 program=$4 what=$5
    [ -z "$only" ] || case " $only " in *" $name "*) ;; *) return 0 ;; esac
    sed "$edit" "$root/$file" > "$t/$file"
    if cmp -s "$root/$file" "$t/$file"; then echo "FAIL $name: $file has no such place any more"; missed=$((missed + 1)); return 0; fi
    if ! (cd "$t" && make -s CI= HAVE_CUDA=0 CC="${CC:-cc}" V=1 "$obj/tests/$program" > log 2>&1); then
        echo "FAIL $name: does not compile"; tail -n 5 "$t/log"; missed=$((missed + 1))
    elif (cd "$t" && timeout 300 "$obj/tests/$program" > log 2>&1); then
        echo "FAIL $name: $program passes with it ($what)"; missed=$((missed + 1))
    else
        echo "found $name: $what"
        grep -m 1 -E 'cuda-emu:|failed:|CUDA:|Segmentation|code [0-9]' "$t/log" | sed 's/^/      /'
    fi
    cp "$root/$file" "$t/$file"
    n=$((n + 1))
}
only=$*
git ls-files -z | tar c --null -T - | tar x -C "$t" || exit 1
obj=$(cd "$t" && make -pn CI= HAVE_CUDA=0 CC="${CC:-cc}" help 2> /dev/null | sed -n 's/^OBJ := //p' | head -n 1)

mistake last-fence kernels/cuda/last.cuh '/its fences are for the block/,/is_last = cu_atomic_add/s/cu_fence();//' kern/cuda_late 'a last block reads what others have not made visible'
mistake last-order kernels/cuda/last.cuh '/^CU_DEV bool cu_is_last/{n;s/__syncthreads();//}' kern/cuda_late 'one thread fences before the block has met'
mistake acquire kernels/cuda/last.cuh '/arrived = 0;/{n;s/cu_fence();//}' kern/cuda_late 'the last block does not ask for what others show'
mistake early-wait kernels/cuda/kv.cu 's/^    cu_wait_before();//' kern/cuda_late 'a kernel that begins early does not wait'
mistake early-store kernels/cuda/delta.cu '/^    cu_wait_before();/{h;s/.*/    if (threadIdx.x == 0) a.arrived[blockIdx.y] = 0;/;p;g}' kern/cuda_late 'a kernel stores before it waits'
mistake early-code kernels/cuda/ctx.cu 's/yes && s->c->code >= 90 && captures_early()/yes/' kern/cuda_runtime 'early launch decided by the device, not by the code'
mistake last-error kernels/cuda/ctx.cu 's/^        cudaGetLastError(); .. callers do without.*//' kern/cuda_runtime 'a refusal is found by the next launch'
mistake smem-lowered kernels/cuda/ctx.cu '/maxDynamicSharedSizeBytes) return 0/d' kern/cuda_runtime 'a launch lowers the shared memory of a captured one'
mistake smem-static kernels/cuda/gemv.cu 's/^    CU_SMEM(e, fn, smem);/    if (smem > 49152) CU_SMEM(e, fn, smem);/;s/(size_t)(WARPS \* j->ring_bytes + plain_bytes)/(size_t)(48 << 10)/' kern/cuda_weights 'static shared memory is not counted'
mistake driver kernels/cuda/ctx.cu 's/if (rc == cudaErrorInsufficientDriver) return old_driver/if (0) return old_driver/' kern/cuda_runtime 'an old driver is not named'
mistake pageable kernels/cuda/ctx.cu 's/if (!s->c->reads_pageable)/if (1)/' kern/cuda_runtime 'memory that is reused before it is fetched'
mistake rounding runtime/engine/cuda/fit.c 's/n->bytes + n->rounding <=/n->bytes <=/' unit/test_cuda_memory 'a plan forgets the blocks of memory'
mistake sites kernels/cuda/elem.cu 's/cu_warp_sum(s) \/ (float)n + eps/(threadIdx.x % 2 ? cu_warp_sum(s)\n : cu_warp_sum(s)) \/ (float)n + eps/' kern/cuda_ops 'lanes meet in two calls of the same name'
mistake gemv-wait kernels/cuda/gemv.cu 's/cu_copy_wait<STAGES - 1>/cu_copy_wait<STAGES>/' kern/cuda_weights 'activations are read before their copy is there'
mistake gemv-token kernels/cuda/gemv.cu 's/(unsigned)n \* p.n_sum + w.u/w.u/' kern/cuda_weights 'tokens of a pass share the first one'"'"'s activations'
mistake f32-raw kernels/cuda/gemm_f32.cu '/% R::PERIOD == 0) {/,/}/s/__syncthreads();//' kern/cuda_weights 'raw weights are decoded before the copies of other threads are there'
mistake f32-sums kernels/cuda/gemm_f32.cu 's/^    __syncthreads(); .. nobody reads operands.*//' kern/cuda_weights 'sums leave through memory that others still read'
echo "$((n - missed)) of $n mistakes found"
[ "$missed" = 0 ]
