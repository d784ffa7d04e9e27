# Everything is done by src-tauri/make.sh; `make` is only the short name for it.
.PHONY: run test check bench package

run:     ; @src-tauri/make.sh run     # the window; without a display, the tour in the terminal
test:    ; @src-tauri/make.sh test    # everything: what check does, and every test, the real window included
check:   ; @src-tauri/make.sh check   # formatting, lints and types
bench:   ; @src-tauri/make.sh bench   # how long things take
package: ; @src-tauri/make.sh package # what people install
