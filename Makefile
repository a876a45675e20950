# Makefile - builds and tests hone. `make help` lists all targets, including those of mk/*.mk.
# No configure step: pkg-config finds the libraries; V=1 shows the commands.

BUILD   ?= build
CC      ?= cc
V       ?= 0
# Cross builds: CROSS is the prefix of the compiler's programs, SYSROOT the folder with the libraries, RUN the program
# that runs the result. `make arm64` and `make check-arm64` set all three.
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
# not PKG_CONFIG: Debian's tools set it to a program for the target machine
PC_DIRS := PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TRIPLE)/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(SYSROOT)
PKGCONF := $(if $(SYSROOT),$(PC_DIRS) )pkg-config
Q       := $(if $(filter 1,$(V)),,@)
VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)

# ---- libraries ------------------------------------------------------------------------------
REQUIRED := zlib libxxhash libpcre2-8 libutf8proc libedit yaml-0.1 libcjson libpng libjpeg
MISSING  := $(strip $(foreach p,$(REQUIRED),$(if $(shell $(PKGCONF) --exists $(p) 2>/dev/null && echo y),,$(p))))
NEEDS_NO_LIBS := help clean deps demo format tarball uninstall
ifneq ($(MISSING),)
ifneq ($(filter-out $(NEEDS_NO_LIBS),$(or $(MAKECMDGOALS),all)),)
$(error missing libraries: $(MISSING). Install them: `make deps`, or see docs/platforms.md)
endif
endif
has = $(shell echo 'int main(void){return 0;}' | $(CC) -Werror $(1) -x c -o /dev/null - 2>/dev/null && echo $(1))
# the headers are included as <cjson/cJSON.h> and <png.h>, so the folders of cJSON and libpng are not needed
LIB_CFLAGS := $(filter-out %/cjson %/libpng16,$(shell $(PKGCONF) --cflags $(REQUIRED) 2>/dev/null))
LIBS       := $(shell $(PKGCONF) --libs $(REQUIRED) 2>/dev/null) -lm -lpthread $(call has,-ldl)
ifneq ($(SYSROOT),)
LIB_CFLAGS += -isystem $(SYSROOT)/usr/include -isystem $(SYSROOT)/usr/include/$(TRIPLE)
LIBS       := $(foreach d,$(SYSROOT)/usr/lib/$(TRIPLE) $(SYSROOT)/lib/$(TRIPLE),-L$d -Wl,-rpath-link,$d) $(LIBS)
endif
# MPI=1: several processes work on one quantization (base/ranks.h; Debian: libopenmpi-dev)
ifeq ($(MPI),1)
LIB_CFLAGS += -DHONE_MPI $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c))
LIBS       += $(shell pkg-config --libs ompi-c)
endif

# ---- flags ----------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wcast-qual -Wcast-align \
        -Wpointer-arith -Wformat=2 -Wundef -Wvla -Wwrite-strings -Wswitch-enum -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wimplicit-fallthrough -fno-common
WARN := $(WARN) $(call has,-Wlogical-op) $(call has,-Wduplicated-cond)
ifeq ($(CI),true)
WARN := $(WARN) -Werror
endif
DBG  ?= $(if $(SAN),-g1,-g)# -g1, lines only, compiles faster
OPT  := $(if $(DEBUG),-O0,-O2) $(DBG)
SANF := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -DHONE_VERSION='"$(VERSION)"' -I. $(LIB_CFLAGS) $(WARN) $(OPT) $(SANF) \
             -ffp-contract=off -fPIC -fvisibility=hidden $(if $(NATIVE),-march=native) $(CFLAGS)
ALL_LDFLAGS = $(SANF) $(LDFLAGS)

# not empty: kernels that this machine cannot run are compiled without optimization, which saves minutes (mk/isa.mk)
ONLY_COMPILED ?= $(SAN)
# other flags build in another folder: no stale objects
OBJ := $(BUILD)/obj-$(shell echo '$(CC) $(ALL_CFLAGS)$(ONLY_COMPILED)' | cksum | cut -d' ' -f1)

# files generated from commands/*.def by a program for this machine: the library's header and the manual pages
GEN    := $(BUILD)/gen
HOSTCC ?= $(if $(CROSS),cc,$(CC))
HONE_H := $(GEN)/include/hone.h
MAN    := $(patsubst docs/man/%,$(GEN)/man/%,$(wildcard docs/man/*.1))
ALL_CFLAGS += -I$(GEN)

DIRS := base containers kernels kernels/ref models text tok template grammar chat convert calib quantize quantize/enc \
        runtime/vision runtime/engine runtime/engine/cpu runtime/engine/cuda runtime/generate runtime/measure grad \
        report serve work plan mix make jobs lib
X86_DIRS   := kernels/f32 kernels/avx2 kernels/avxvnni kernels/avx512 kernels/amx kernels/rows quantize/enc/avx2
ARM64_DIRS := kernels/f32 kernels/neon kernels/dotprod kernels/i8mm kernels/rows
ifeq ($(ARCH),x86_64)
DIRS += $(X86_DIRS)
endif
ifeq ($(ARCH),aarch64)
DIRS += $(ARM64_DIRS)
endif
# Windows has its own implementation of base/os.h and of the line editor
WINDOWS := $(findstring windows,$(TRIPLE))
ifneq ($(WINDOWS),)
DIRS += base/win
NOT_HERE := $(filter-out base/os_bare.c,$(wildcard base/os*.c))
ALL_CFLAGS += -Ibase/win/include -include base/win/include/posix.h -Wno-pedantic
EXE := .exe
endif
OTHER_DIRS := $(filter-out $(DIRS),$(X86_DIRS) $(ARM64_DIRS))
CLI  := $(if $(WINDOWS),cli/win/line.c $(filter-out cli/line.c,$(wildcard cli/*.c)),$(wildcard cli/*.c))
MAIN := $(OBJ)/cli/main.o
CLI_OBJS := $(filter-out $(MAIN),$(CLI:%.c=$(OBJ)/%.o))
LIB  := $(OBJ)/all.a# everything but main, every symbol: what our own programs link
BIN  := $(OBJ)/hone$(EXE)
UNIT := $(patsubst %.c,$(OBJ)/%,$(wildcard tests/unit/test_*.c) $(wildcard tests/kern/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
UNIT += $(FUZZ:%=$(OBJ)/tests/fuzz/%)

TINY   := tests/golden/tiny-qwen35moe
PYTHON ?= python3
PYENV  := $(BUILD)/pyenv

.DEFAULT_GOAL := all
.PRECIOUS: $(OBJ)/%.o
all: $(BUILD)/hone$(EXE) $(MAN) ## build build/hone
# build/hone is the binary built with these flags, even if another build is newer
$(BUILD)/hone$(EXE): $(BIN) FORCE
	$(Q)mkdir -p $(BUILD) && { cmp -s $(BIN) $@ || { cp -f $(BIN) $@.new && mv -f $@.new $@; }; }
FORCE:

include mk/isa.mk mk/cuda.mk
SRC  := $(filter-out kernels/packed.c $(NOT_HERE),$(wildcard $(addsuffix /*.c,$(DIRS)))) \
        $(if $(CUDA_OBJS),,kernels/cuda/none.c quantize/enc/cuda/none.c)
OBJS := $(SRC:%.c=$(OBJ)/%.o) $(PACKED_OBJS)
$(GEN)/gen: commands/gen.c commands/option.h $(wildcard commands/*.def)
	@mkdir -p $(@D)
	$(Q)$(HOSTCC) -std=c11 -Wall -Wextra -I. -o $@ $<
$(HONE_H): include/hone.h.in $(GEN)/gen
	@mkdir -p $(@D)
	$(Q)$(GEN)/gen expand < $< > $@.new && mv $@.new $@
$(MAN): $(GEN)/man/%: docs/man/% $(GEN)/gen
	@mkdir -p $(@D)
	$(Q)$(GEN)/gen expand < $< > $@.new && mv $@.new $@
$(OBJ)/%.o: %.c | $(HONE_H)
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  cc    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@
$(LIB): $(OBJS) $(CLI_OBJS) $(CUDA_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BIN): $(MAIN) $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN) $(LIB) $(LIBS)
$(OBJ)/bench/%: $(OBJ)/bench/%.o $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)
$(OBJ)/tests/%: $(OBJ)/tests/%.o $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)
# the library does these programs' work, so optimizing them takes minutes and gains nothing; those of error feedback
# compute references. By patterns: if a fuzz program's object is named, make links it without driver.o
$(OBJ)/tests/unit/%.o $(OBJ)/tests/fuzz/%.o: OPT := -O0 $(DBG)
$(OBJ)/tests/unit/test_fb_%.o $(OBJ)/tests/unit/%feedback.o: OPT := $(OPT)
$(OBJ)/tests/fuzz/fuzz_%: $(OBJ)/tests/fuzz/fuzz_%.o $(OBJ)/tests/fuzz/driver.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)
# the program with injected failures (tests/fault.c), for tests/faults.sh
FAULT_WRAP := malloc calloc realloc posix_memalign open fopen opendir mkdir stat lstat fstat statvfs realpath read \
              pread readdir pwrite fallocate ftruncate fflush close fsync rename renameat2 unlink mmap pthread_create \
              main
FAULT := $(OBJ)/hone-fault
$(FAULT): $(MAIN) $(OBJ)/tests/fault.o $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(FAULT_WRAP:%=-Wl,--wrap=%) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)
-include $(OBJS:.o=.d) $(CLI_OBJS:.o=.d) $(MAIN:.o=.d) $(UNIT:=.d) $(EMU_OBJS:.o=.d) $(CUDA_OBJS:.o=.d) \
         $(ISA_OBJS:.o=.d) $(OBJ)/tests/fault.d $(OBJ)/tests/micro.d $(OBJ)/tests/fuzz/driver.d \
         $(wildcard $(OBJ)/bench/*.d)

# ---- tests ----------------------------------------------------------------------------------
unit: $(UNIT) ## build the unit tests
# T=NAME: only tests with NAME in their name. With SAN the emulated instruction sets are left out, since they take
# minutes to compile (make check-isa)
CHECKED := $(if $(SAN),$(filter-out $(ISA_UNIT),$(UNIT)),$(UNIT))
SCRIPTS_OF := $(wildcard tests/cli/*.sh)
# only in `make test-long`: a comparison over a whole text
SLOW_SCRIPTS := peer-baseline
# the slowest tests under a sanitizer, and those that test code other than C; other tests cover the same code there
LONG_UNITS   := test_cuda_serve test_cuda_session test_cuda_eval test_cuda_program test_grad test_archs test_slopes
LONG_SCRIPTS := abi arm64 blas cuda cuda-archs cuda-image determinism earlier eval-act feedback globals \
                guides interrupt joint keep-eval keep-imatrix killed ladder loops make-draft make-folder \
                make-left make-memory make-resume make-vision mix mtp nothing-lost one-answer peers pipe \
                portable quantize-resume remedies replay requantize template-everywhere trained unknown \
                words
ifeq ($(LONG)$(T),)
LEFT_OUT   := $(SLOW_SCRIPTS:%=tests/cli/%.sh) \
              $(if $(SAN),$(LONG_SCRIPTS:%=tests/cli/%.sh) $(LONG_UNITS:%=$(OBJ)/tests/unit/%))
SCRIPTS_OF := $(filter-out $(LEFT_OUT),$(SCRIPTS_OF))
CHECKED    := $(filter-out $(LEFT_OUT),$(CHECKED))
endif
ifneq ($(T),)
CHECKED    := $(strip $(foreach t,$(CHECKED),$(if $(findstring $(T),$(notdir $t)),$t)))
SCRIPTS_OF := $(strip $(foreach t,$(SCRIPTS_OF),$(if $(findstring $(T),$(notdir $t)),$t)))
endif
# programs that these scripts run besides hone
MAY_USE := HONE_EMU|HONE_FAULTY|HONE_ISA_EMU|HONE_MICRO|stage
USED := $(if $(SCRIPTS_OF),all $(shell grep -ohwE '$(MAY_USE)' $(SCRIPTS_OF) | sort -u))
HONE_EMU_IS := $(HONE_EMU)
HONE_FAULTY_IS := $(FAULT)
HONE_MICRO_IS := $(OBJ)/tests/micro
HONE_ISA_EMU_IS := $(if $(SAN),,$(HONE_ISA_EMU))
stage_IS := $(OBJ)/stage.stamp
TEST_ENV = HONE=$(abspath $(BIN)) HONE_GEN=$(abspath $(GEN)) \
           HONE_EMU=$(abspath $(HONE_EMU)) HONE_ISA_EMU=$(abspath $(HONE_ISA_EMU)) \
           HONE_FAULTY=$(abspath $(FAULT)) HONE_MICRO=$(abspath $(HONE_MICRO_IS)) \
           CC='$(CC)' SANF='$(SANF)' WRAP='$(WRAP)'
TEST_NEEDS := $(HONE_H) $(MAN) $(foreach u,$(USED),$(or $($u_IS),$(filter all,$u)))
test: $(CHECKED) $(TEST_NEEDS) ## every test that needs no network, Python or GPU; T=gguf: those with gguf in the name
	$(Q)$(TEST_ENV) T='$(T)' UNITS='$(abspath $(CHECKED))' SCRIPTS='$(SCRIPTS_OF)' sh tests/run.sh
check: test ## the same
test-long: ## also the tests that `make test` leaves out (SLOW_SCRIPTS; with SAN LONG_SCRIPTS and LONG_UNITS)
	+@$(MAKE) --no-print-directory LONG=1 test
# an installation for tests/cli/library.sh, which builds programs against it
$(OBJ)/stage.stamp: $(BIN) $(HONE_H) packaging/hone.pc.in Makefile mk/dist.mk
	$(Q)rm -rf $(OBJ)/stage
	+$(Q)$(MAKE) --no-print-directory -s install DESTDIR=$(OBJ)/stage PREFIX=/opt/hone && touch $@

include mk/check.mk mk/arm64.mk mk/lint.mk mk/cross.mk mk/dist.mk

# ---- demo, dependencies ------------------------------------------------------------------------
APT_PKGS := build-essential pkg-config zlib1g-dev libxxhash-dev libpcre2-dev libutf8proc-dev libedit-dev libyaml-dev \
  libcjson-dev libpng-dev libjpeg62-turbo-dev libopenblas0-pthread
DNF_PKGS := gcc make pkgconf zlib-devel xxhash-devel pcre2-devel utf8proc-devel libedit-devel libyaml-devel \
  cjson-devel libpng-devel libjpeg-turbo-devel openblas-threads
BREW_PKGS := pkg-config zlib xxhash pcre2 utf8proc libedit libyaml cjson libpng jpeg-turbo
DEMO ?= $(BUILD)/demo
deps: ## install the libraries (apt, as root or with sudo), or print how
	@if pkg-config --exists $(REQUIRED) 2>/dev/null && command -v $(CC) >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(APT_PKGS); \
	elif command -v apt-get >/dev/null && command -v sudo >/dev/null; then \
	  sudo apt-get update -qq && sudo apt-get install -y -qq $(APT_PKGS); \
	else printf '%s\n' 'Libraries are missing. Install them with one of:' \
	'  apt-get install $(APT_PKGS)' '  dnf install $(DNF_PKGS)' '  brew install $(BREW_PKGS)'; exit 1; fi
demo: deps ## install what is missing, build on all cores, run the main job on the bundled model
	+@$(MAKE) --no-print-directory -j$$(nproc) all
	$(BUILD)/hone make $(TINY) -o $(DEMO) --recipe Q6_K,Q4_K_M,Q3_K_M --effort fast --time 30m \
	  --calib $(TINY)/calib.jsonl --calib-chunks 50 --probe $(TINY)/self_calib.txt \
	  --eval $(TINY)/eval.jsonl --eval $(TINY)/self_eval.txt --chunks 16 --tools-cases 4

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16
clean: ## remove the build folder
	rm -rf $(BUILD)
.PHONY: all FORCE unit test check test-long deps demo help clean
