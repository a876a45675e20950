# hone: one file builds, tests and packages everything. `make help` lists targets.
# No configure step: libraries are probed with pkg-config once; V=1 shows commands.

BUILD   ?= build
CC      ?= cc
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)

# ---- libraries ------------------------------------------------------------------------------
REQUIRED := libcjson zlib libxxhash openblas libpcre2-8 libutf8proc
MISSING  := $(foreach p,$(REQUIRED),$(if $(shell pkg-config --exists $(p) 2>/dev/null && echo y),,$(p)))
NEEDS_NO_LIBS := help clean deps demo format
ifneq ($(MISSING),)
ifneq ($(filter-out $(NEEDS_NO_LIBS),$(or $(MAKECMDGOALS),all)),)
$(error missing libraries: $(MISSING). Install them: `make deps`, or see README.md "Install")
endif
endif
LIB_CFLAGS := $(shell pkg-config --cflags $(REQUIRED) 2>/dev/null)
LIBS       := $(shell pkg-config --libs $(REQUIRED) 2>/dev/null) -lm -lpthread

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
             -ffp-contract=off $(if $(NATIVE),-march=native) $(CFLAGS)
ALL_LDFLAGS = $(SANF) $(LDFLAGS)

# flags changed: another folder, no stale objects
OBJ := $(BUILD)/obj-$(shell echo '$(CC) $(ALL_CFLAGS)' | cksum | cut -d' ' -f1)

ARCH := $(shell uname -m)
DIRS := core kernels kernels/ref models text convert calib quantize quantize/enc runtime report
ifeq ($(ARCH),x86_64)
DIRS += kernels/avx2 kernels/avx512
endif
SRC  := $(wildcard $(addsuffix /*.c,$(DIRS)))
OBJS := $(SRC:%.c=$(OBJ)/%.o)
CLI  := $(wildcard cli/*.c)
CLI_OBJS := $(CLI:%.c=$(OBJ)/%.o)
LIB  := $(OBJ)/libhone.a
BIN  := $(OBJ)/hone
UNIT := $(patsubst %.c,$(OBJ)/%,$(wildcard tests/unit/test_*.c) $(wildcard tests/kern/*.c))

.DEFAULT_GOAL := all
.SECONDARY:
all: $(BUILD)/hone ## build build/hone
$(BUILD)/hone: $(BIN)
	$(Q)mkdir -p $(BUILD) && cp -f $(BIN) $@.new && mv -f $@.new $@

$(OBJ)/core/%.o $(OBJ)/text/%.o $(OBJ)/convert/%.o: WARN += -Wsign-conversion
$(OBJ)/kernels/avx2/%.o: ISA = -mavx2 -mfma -mf16c -ffp-contract=fast
$(OBJ)/kernels/avx512/%.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -ffp-contract=fast
$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	@$(if $(filter 0,$(V)),echo "  cc    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@
$(LIB): $(OBJS)
	$(Q)rm -f $@ && ar rcs $@ $(OBJS)
$(BIN): $(CLI_OBJS) $(LIB)
	@$(if $(filter 0,$(V)),echo "  link  $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(CLI_OBJS) $(LIB) $(LIBS)
$(OBJ)/tests/%: $(OBJ)/tests/%.o $(LIB)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)
-include $(OBJS:.o=.d) $(CLI_OBJS:.o=.d) $(UNIT:=.d)

# ---- checks ---------------------------------------------------------------------------------
unit: $(UNIT) ## build the unit tests
check: all $(UNIT) ## every test that needs no network, Python or GPU
	$(Q)HONE=$(abspath $(BIN)) UNITS='$(abspath $(UNIT))' WRAP='$(WRAP)' sh tests/run.sh
test: check ## the same

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16
clean: ## remove the build folder
	rm -rf $(BUILD)
.PHONY: all unit check test help clean
