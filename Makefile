# Everything here is one command that can also be typed.
.PHONY: build release test race fuzz lint demo perf ci

build: ; go build -o bobnet ./cmd/bobnet
test:  ; go test ./...
race:  ; go test -race -short ./...
lint:  ; gofmt -l . && go vet ./... && go tool staticcheck ./...
demo:  ; go run ./cmd/bobnet demo
perf:  ; go run ./cmd/bobnet perf --local
fuzz:  ; go test -run '^$$' -fuzz FuzzParse -fuzztime 1m ./ethertype
release: ; packaging/release.sh
ci:    ; .ci/run
