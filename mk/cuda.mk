# mk/cuda.mk - CUDA: the kernels, their emulation on the CPU, and checks and benchmarks on a GPU.
# The kernels are compiled if the machine has a GPU and nvcc, or on request: `make HAVE_CUDA=1`, or CUDA_ARCHS=...
# Otherwise kernels/cuda/none.c reports that there is no CUDA.
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
GPU_HERE  := $(wildcard /dev/nvidia0 /dev/nvidiactl /proc/driver/nvidia/version /dev/dxg)# dxg: Windows' Linux
CUDA_ASKED := $(filter-out undefined,$(firstword $(origin CUDA_ARCHS)))
CUDA_SRC  := $(wildcard kernels/cuda/*.cu quantize/enc/cuda/*.cu)
ifndef HAVE_CUDA
HAVE_CUDA := $(if $(and $(NVCC),$(GPU_HERE)$(CUDA_ASKED)),1,0)
CUDA_FOUND := $(HAVE_CUDA)# found, not requested: a toolkit that is too old must not end a build
endif
ifeq ($(HAVE_CUDA),1)
NVCC_MAJOR := $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
ifeq ($(shell [ "0$(NVCC_MAJOR)" -ge 12 ] && echo y),)
$(if $(CUDA_FOUND),$(warning $(NVCC) is of CUDA $(or $(NVCC_MAJOR),?); 12 is needed: building for the CPU alone),\
  $(error $(or $(NVCC),nvcc) is of CUDA $(or $(NVCC_MAJOR),?); 12 is needed. HAVE_CUDA=0 builds for the CPU alone))
HAVE_CUDA := 0
endif
endif
ifeq ($(HAVE_CUDA),1)
# CUDA_ARCHS: `all` (for a release: those of 80 86 89 90a 100 120 that the toolkit supports; takes minutes), compute
# capabilities ("86 89"), or empty: PTX only. Default: the GPUs of this machine. PTX for 80 runs on anything newer.
CUDA_ARCHS ?= here
ifneq ($(strip $(CUDA_ARCHS)),)
CUDA_GEN   := $(shell sh kernels/cuda/archs.sh '$(NVCC)' $(CUDA_ARCHS) || echo failed)
ifneq ($(filter failed,$(CUDA_GEN)),)
$(error CUDA_ARCHS=$(CUDA_ARCHS))
endif
endif
CUDA_PTX   := 80 $(if $(filter all,$(CUDA_ARCHS)),$(filter 120,$(CUDA_GEN)))
NVCC_FLAGS := -std=c++17 -O3 -I. -fmad=false $(if $(filter true,$(CI)),-Werror all-warnings) \
              -Xcompiler -Wall,-fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-exceptions,-fno-threadsafe-statics \
              $(NVCCFLAGS) $(foreach a,$(CUDA_GEN),-gencode arch=compute_$(a),code=sm_$(a)) \
              $(foreach a,$(CUDA_PTX),-gencode arch=compute_$(a),code=compute_$(a))
CUOBJ      := $(BUILD)/cuobj-$(shell echo '$(NVCC) $(NVCC_FLAGS)' | cksum | cut -d' ' -f1)
CUDA_OBJS  := $(CUDA_SRC:%.cu=$(CUOBJ)/%.o)
CUDA_DIRS  := $(addprefix $(dir $(NVCC))../,lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib lib)
CUDA_LIB   := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_DIRS))) -lcudart_static)
LIBS       += $(CUDA_LIB) -ldl -lrt
endif

# programs that run kernels: on the CPU emulation of the same .cu sources in `make test`, on a device in `make
# check-cuda`
CUDA_UNIT := $(filter $(OBJ)/tests/kern/cuda_% $(OBJ)/tests/unit/test_cuda_%,$(UNIT))
EMU_PLAY  := $(patsubst %,$(OBJ)/emu/tests/cuda-emu/%.o,emu devices runtime card late wgmma)
EMU_OBJS  := $(CUDA_SRC:%.cu=$(OBJ)/emu/%.o) $(EMU_PLAY) $(OBJ)/emu/tests/cuda-emu/probe.o
HONE_EMU  := $(OBJ)/hone-emu
$(CUOBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  nvcc  $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ || { \
	  echo "$<: nvcc failed. 'make HAVE_CUDA=0' builds for the CPU alone;" \
	    "NVCCFLAGS='-ccbin g++-12' names another host compiler" >&2; exit 1; }

# the emulation compiles the same sources as C++ for the CPU; linked as objects, so that they override the library's
CXX_EMU   ?= $(if $(findstring ccache,$(CC)),ccache )$(if $(findstring clang,$(CC)),clang++,g++)
EMU_FLAGS = -std=c++17 -D_GNU_SOURCE -I. -Wall -Wextra -Wpedantic -Wconversion -Wno-unused-function \
            -Wno-unknown-pragmas $(if $(filter true,$(CI)),-Werror) $(if $(SAN),-O1 -g,$(OPT)) $(SANF) \
            $(if $(findstring undefined,$(SAN)),-fsanitize=float-cast-overflow) -ffp-contract=off \
            -include tests/cuda-emu/emu.hpp -x c++
$(OBJ)/emu/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $<")
	$(Q)$(CXX_EMU) $(EMU_FLAGS) -MMD -MP -c $< -o $@
# the emulated machine is not under test, and all time is spent in it
$(EMU_PLAY): SANF =
$(OBJ)/emu/%.o: %.cpp
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $<")
	$(Q)$(CXX_EMU) $(EMU_FLAGS) -MMD -MP -c $< -o $@
$(CUDA_UNIT): %: %.o $(EMU_OBJS) $(LIB)
	$(Q)$(CXX_EMU) $(ALL_LDFLAGS) -o $@ $< $(EMU_OBJS) $(LIB) $(LIBS)
$(HONE_EMU): $(MAIN) $(EMU_OBJS) $(LIB)
	$(Q)$(CXX_EMU) $(ALL_LDFLAGS) -o $@ $(MAIN) $(EMU_OBJS) $(LIB) $(LIBS)
$(OBJ)/device/%: $(OBJ)/%.o $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)

check-cuda: all $(CUDA_UNIT:$(OBJ)/%=$(OBJ)/device/%) ## the kernel tests on this machine's GPU; WRAP=compute-sanitizer
	@rc=0; for t in $(filter-out check-cuda all,$^); do echo "== $$(basename $$t)"; \
	  $(WRAP) $$t || { r=$$?; [ $$r = 77 ] || rc=1; }; done; exit $$rc

# kernels with code for these GPUs, or with the highest register and shared memory use
check-ptxas: ## assemble the heaviest kernels for 9.0a and 12.0 (minutes)
	+@$(MAKE) --no-print-directory HAVE_CUDA=1 CI=true CUDA_ARCHS='90 120' ptxas-objects
ptxas-objects: $(filter %/gemm_sm90.o %/agree.o %/gemv.o %/attn.o %/delta.o,$(CUDA_OBJS))

check-cuda12: ## the CUDA sources by the compiler and headers of CUDA 12.4, which PyPI has (minutes)
	python3 tests/cuda12.py $(BUILD)/cuda12
seeded: ## known mistakes in the CUDA code, one at a time: the emulation must find each (minutes)
	$(Q)CC='$(CC)' sh tests/seeded.sh
bench-cuda: $(OBJ)/device/bench/cuda ## single kernels on the GPU of this machine, as JSON
	@$<

bench-cuda-first: $(OBJ)/device/bench/cuda_first ## the times that decide whether the estimates hold, as JSON
	@$<
.PHONY: check-cuda check-ptxas ptxas-objects check-cuda12 seeded bench-cuda bench-cuda-first
