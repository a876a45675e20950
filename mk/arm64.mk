# mk/arm64.mk - builds for ARM64 on another machine: Debian's cross compiler and library packages, and QEMU.
# ARM64_CPU: the processor emulated by QEMU
ARM64_LIBC ?= /usr/aarch64-linux-gnu
ARM64_ROOT ?= $(abspath $(BUILD))/arm64-root
export ARM64_LIBC ARM64_ROOT
ARM64_RUN  := $(abspath tests/arm64-run.sh)
ARM64_MAKE = +@$(MAKE) --no-print-directory BUILD=$(BUILD)/arm64 ARM64_ROOT=$(ARM64_ROOT) HAVE_CUDA=0 \
  CROSS=aarch64-linux-gnu- SYSROOT=$(ARM64_ROOT) RUN='$(ARM64_RUN) max' \
  CC='$(if $(findstring ccache,$(CC)),ccache )aarch64-linux-gnu-gcc'
$(ARM64_ROOT)/complete: packaging/arm64-root.sh
	$(Q)sh packaging/arm64-root.sh $(@D)
arm64: $(ARM64_ROOT)/complete ## hone for ARM64 (Debian: gcc-aarch64-linux-gnu): build/arm64/hone
	$(ARM64_MAKE) all
arm64-static: $(ARM64_ROOT)/complete ## hone for ARM64 as one file, tried under QEMU: build/hone-*-linux-static
	$(ARM64_MAKE) static
	$(Q)cp $(BUILD)/arm64/hone-static $(BUILD)/hone-$(VERSION)-aarch64-linux-static
	$(Q)t=$$(mktemp -d) && trap 'rm -rf "$$t"' EXIT && cp $(BUILD)/arm64/hone-static "$$t/hone" && \
	  cp -r tests/golden/models/qwen35moe "$$t/model" && cd "$$t" && \
	  qemu-aarch64 ./hone convert model -o m.gguf -q > /dev/null && \
	  qemu-aarch64 ./hone verify m.gguf -q > /dev/null && qemu-aarch64 ./hone --version
# the list of unit programs is in tests/arm64.sh
ARM64_LIST  := $(shell sed -n '/^units=/,/'"'"'$$/p' tests/arm64.sh | tr -d "'" | sed 's/units=//')
ARM64_UNITS := tests/kern/check $(addprefix tests/unit/,$(ARM64_LIST))
check-arm64: all $(ARM64_ROOT)/complete ## the ARM64 build under QEMU (Debian: qemu-user too); QUICK=1: only kernels
	$(ARM64_MAKE) arm64-checked HOST_HONE=$(abspath $(BIN))
arm64-checked: all $(ARM64_UNITS:%=$(OBJ)/%)
	$(Q)HONE=$(HOST_HONE) ARM_HONE=$(abspath $(BIN)) RUN=$(ARM64_RUN) sh tests/arm64.sh
arm64-deb: $(ARM64_ROOT)/complete tarball ## Debian packages for ARM64 in build/arm64/deb
	$(ARM64_MAKE) deb
arm64-wheel: $(ARM64_ROOT)/complete $(PYENV)/made ## the Python package for ARM64 as a wheel in build/arm64/wheel
	$(ARM64_MAKE) PYENV=$(abspath $(PYENV)) wheel
.PHONY: arm64 arm64-static arm64-deb arm64-wheel check-arm64 arm64-checked bench-arm64 arm64-counted
bench-arm64: $(ARM64_ROOT)/complete ## instructions per weight, counted by QEMU -> docs/results/arm64.json (minutes)
	$(ARM64_MAKE) arm64-counted
arm64-counted: $(OBJ)/bench/product
	$(Q)$(PYTHON) bench/arm64.py $(abspath $<) $(ARM64_RUN) docs/results/arm64.json
