# mk/cross.mk - builds for macOS and Windows with the compiler of packaging/cross/tools.sh, and their checks;
# docs/platforms.md has their state.
CROSS_DIR  := $(BUILD)/cross
CROSS_BIN  := $(abspath $(CROSS_DIR))/tools/bin
CROSS_OPT  ?= -O2
# newer clangs count enumeration constants in float arithmetic as conversions
CROSS_WARN := -Wno-enum-float-conversion -Wno-enum-conversion
CROSS_LIB   = $(abspath $(CROSS_DIR))/libs/$(1)
# $(call cross,TARGET,OUR LIBRARIES,FLAGS,OTHER LIBRARIES): the same Makefile with another compiler
cross = sh packaging/cross/tools.sh $(CROSS_DIR)/tools && \
  sh packaging/cross/libs.sh $(CROSS_DIR)/tools $(1) $(CROSS_DIR)/libs && \
  $(MAKE) --no-print-directory BUILD=$(CROSS_DIR)/$(1) CC='$(CCACHE)$(CROSS_BIN)/$(1)-clang' HOSTCC='$(CCACHE)cc' \
    AR=$(CROSS_BIN)/ar MISSING= LIB_CFLAGS='-isystem $(call CROSS_LIB,$(1))/include $(3)' OPT=$(CROSS_OPT) HAVE_CUDA=0 \
    CFLAGS='$(CROSS_WARN)' \
    LIBS='$(addprefix $(call CROSS_LIB,$(1))/lib/,$(2)) $(4)' CI=true
CROSS_LIBS := libcjson.a libyaml.a libpng.a libjpeg.a libutf8proc.a libxxhash.a libpcre2-8.a libz.a
WINDOWS_LIBS := -lws2_32 -lbcrypt -ladvapi32 -lshell32 -lpsapi
CCACHE := $(if $(findstring ccache,$(CC)),ccache ,)
macos-%:
	+$(Q)$(call cross,macos-$*,$(CROSS_LIBS),,$(abspath packaging/cross/libedit.tbd)) all shared
macos: macos-arm64 macos-x86_64 ## hone and libhone.2.dylib in build/cross/macos-arm64 and macos-x86_64
WINDOWS_FLAGS := -DPCRE2_STATIC -DUTF8PROC_STATIC
WINDOWS_MAKE = $(call cross,windows-x86_64,libpcre2-posix.a $(CROSS_LIBS),$(WINDOWS_FLAGS),$(WINDOWS_LIBS))
windows: ## hone.exe and hone.dll in build/cross/windows-x86_64
	+$(Q)$(WINDOWS_MAKE) all shared
# after windows: both make the same objects
windows-unit: windows ## the unit tests as Windows programs, in build/cross/windows-x86_64/unit
	+$(Q)$(WINDOWS_MAKE) unit-here
check-macos: macos $(HONE_H) ## processor, minimum version, libraries, symbols and signature of the macOS files
	$(Q)for a in arm64 x86_64; do $(PYTHON) packaging/cross/macho.py $$a $(HONE_H) $(CROSS_DIR)/macos-$$a/hone \
	  $(CROSS_DIR)/macos-$$a/libhone.$(API_MAJOR).dylib || exit 1; done
have-wine:
	$(Q)command -v wine > /dev/null || { echo 'check-windows: wine is missing (Debian: wine64)'; exit 1; }
# PARTS="bytes kills": some of its parts
check-windows: have-wine all shared $(OBJ)/tests/micro windows windows-unit ## hone.exe under Wine against hone
	$(Q)$(PYTHON) packaging/cross/pe.py $(HONE_H) $(addprefix $(CROSS_DIR)/windows-x86_64/hone.,exe dll)
	$(Q)CC='$(HOSTCC)' HONE_MICRO=$(abspath $(OBJ))/tests/micro \
	  sh packaging/cross/check-windows.sh $(CROSS_DIR)/windows-x86_64 $(BUILD)/hone $(PARTS)
ifneq ($(WINDOWS),)
# Unit tests that cannot be built for Windows: they start processes with fork (gguf_edit, io, pack_cache), make a named
# pipe (lines), call Linux (machine, pages, seq_rss) or its sockets (os, serve_net).
# The program for Windows has no CUDA, and fuzz targets read files in memory.
NOT_ON_WINDOWS := $(addprefix test_,gguf_edit io pack_cache lines machine pages seq_rss os serve_net cuda%)
HERE := $(filter-out $(NOT_ON_WINDOWS:%=$(OBJ)/tests/unit/%),$(filter $(OBJ)/tests/unit/%,$(UNIT)))
HERE += $(OBJ)/tests/kern/check
$(OBJ)/tests/%: ISA = -include tests/win/posix.h -Itests/win/include
$(HERE): ALL_LDFLAGS = $(OBJ)/tests/win/posix.o
$(HERE): $(OBJ)/tests/win/posix.o
unit-here: $(HERE)
	$(Q)mkdir -p $(BUILD)/unit && rm -f $(BUILD)/unit/* && for f in $^; do \
	  case $$f in *.o) ;; *) ln $$f $(BUILD)/unit/$$(basename $$f).exe ;; esac; done
endif
cross-packages: check-macos windows python-steps ## archives, wheels and manifests for them: build/cross/dist
	$(Q)$(PYTHON) packaging/cross/pe.py $(HONE_H) $(addprefix $(CROSS_DIR)/windows-x86_64/hone.,exe dll)
	$(Q)sh packaging/cross/package.sh $(CROSS_DIR) $(VERSION) $(HONE_H) $(PYTHON)
# Debian's mingw gcc as a second compiler for the files that call Windows
MINGW ?= x86_64-w64-mingw32-gcc-posix
check-mingw: $(HONE_H) ## compile base/win and cli/win with Debian's mingw gcc, if it is installed
	$(Q)command -v $(MINGW) > /dev/null || { echo 'check-mingw: no $(MINGW)'; exit 0; }; \
	  for f in base/win/*.c cli/win/*.c serve/poller.c; do \
	    $(MINGW) -std=c11 -D_GNU_SOURCE -D__USE_MINGW_ANSI_STDIO=1 -I. -I$(GEN) -Ibase/win/include \
	      -include base/win/include/posix.h -Wall -Wextra -Wshadow -Wconversion -Werror -O2 \
	      -c $$f -o /dev/null || exit 1; done
.PHONY: macos windows windows-unit unit-here check-macos have-wine cross-packages check-windows check-mingw
