# Pawl's commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN        := $(CURDIR)/bin
MODULES    := gen services sdk e2e tools
BUF_VERSION      := 1.75.0
SQLC_VERSION     := v1.31.1
LINT_VERSION     := v2.15.0
GOFUMPT_VERSION  := v0.12.0

# How many seeds the simulation runs, and the tests with real processes that every test run makes whole.
SEEDS ?= 10000
E2E   := ./e2e/harness/... ./e2e/scenario/... ./e2e/gateway/... ./e2e/bench/... ./e2e/sdks/... ./e2e/sim/... ./e2e/mutation/...

export PATH := $(BIN):$(PATH)

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

##@ The two commands of the README

.PHONY: demo
demo: build stores ## ten contracts in, extracted fields out; ARGS=--exit ends the system afterwards
	@$(BIN)/pawl demo $(ARGS)

.PHONY: test
test: build stores ## every test, on real PostgreSQL and Redis, the services' under the race detector
	@go build -o $(BIN)/teststores ./services/testkit/cmd/teststores
	@$(BIN)/teststores -- go test -p 1 -race -count=1 -timeout 20m ./services/... ./sdk/...
	@$(BIN)/teststores -- go test -count=1 -timeout 10m -run TestAnUploadOf100000ItemsFitsInLittleMemory ./services/intake # it is smaller under the race detector
	@$(BIN)/teststores -- go test -p 1 -count=1 -timeout 15m ./tools/... $(E2E)
	@$(MAKE) --no-print-directory sim SEEDS=2000
	@$(MAKE) --no-print-directory chaos failpoints ARGS=-short

##@ Work on the code

.PHONY: build
build: $(BIN) ## the pawl binary, in bin/
	@go build -o $(BIN)/pawl ./services/cmd/pawl

.PHONY: stores
stores: ## install PostgreSQL and Redis from the system's packages where they are missing
	@deploy/install-stores.sh

.PHONY: test-short
test-short: ## only the tests that need no store
	@go test -short -count=1 ./services/... ./sdk/... ./tools/...

.PHONY: e2e
e2e: build stores ## only the tests with real processes
	@go build -o $(BIN)/teststores ./services/testkit/cmd/teststores
	@$(BIN)/teststores -- go test -count=1 -timeout 10m $(E2E)

##@ Proofs: what is broken on purpose

.PHONY: sim
sim: ## the deterministic simulation; SEEDS=10000 is how many, ARGS="-seed N -trace" replays one
	@go run ./e2e/sim/cmd/sim -seeds $(SEEDS) $(ARGS)

.PHONY: chaos
chaos: stores ## every fault that one machine can produce, and what is counted after each; ARGS=-short for a few
	@cd e2e/chaos && go test -count=1 -timeout 30m $(ARGS)

.PHONY: failpoints
failpoints: stores ## every process killed between every two durable actions; ARGS=-short for a few
	@cd e2e/failpoints && go test -count=1 -timeout 30m $(ARGS)

.PHONY: mutations
mutations: stores ## every guard taken away in turn, and the test that must notice; ARGS="-only fence" for one
	@go run ./e2e/mutation/cmd/mutation $(ARGS)

##@ Measures

.PHONY: bench
bench: build stores ## the benchmark; prints its report
	@go run ./e2e/bench/cmd/bench $(ARGS)
	@go build -o $(BIN)/teststores ./services/testkit/cmd/teststores
	@$(BIN)/teststores -- go test -p 1 -run none -bench . -benchtime 1x -timeout 60m ./e2e/gateway ./e2e/fairness

.PHONY: dev
dev: build stores ## the whole system on this machine, until Ctrl-C
	@$(BIN)/pawl dev $(ARGS)

.PHONY: gen
gen: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/sqlc third_party ## generate code from proto files and queries
	@buf format -w proto
	@buf generate
	@cd tools && go run ./openapi ../gen/openapi/pawl.swagger.json ../gen/openapi/openapi.json
	@cd services && sqlc generate

.PHONY: third_party
third_party: # the third-party proto files, printed from the Go modules that carry them
	@cd tools && go run ./protoexport ../third_party/proto

.PHONY: verify
verify: gen proto-lint ## fail when generated code or formatting differs from what is committed
	@test -z "$$(git status --porcelain -- gen services proto)" || \
	  { git status --short -- gen services proto; echo "make verify: generated code is not what is committed: run 'make gen' and commit"; exit 1; }
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go vet ./...) || exit 1; done

.PHONY: proto-lint
proto-lint: $(BIN)/buf third_party ## lint the proto files
	@buf lint
	@buf format -d --exit-code proto

.PHONY: proto-breaking
proto-breaking: $(BIN)/buf third_party ## compare the proto files with those on main
	@deploy/proto-breaking.sh

.PHONY: lint
lint: $(BIN)/golangci-lint ## lint the Go code
	@cd services && golangci-lint run --build-tags failpoints --config ../.golangci.yaml ./internal/failpoint/...
	@for m in services sdk e2e tools; do (cd $$m && golangci-lint run --config ../.golangci.yaml ./...) || exit 1; done

.PHONY: fmt
fmt: $(BIN)/gofumpt ## format the Go code
	@gofumpt -l -w services sdk e2e tools

##@ Tools, built once into bin/

$(BIN):
	@mkdir -p $(BIN)

$(BIN)/buf: | $(BIN)
	@npm install --silent --no-save --no-package-lock --prefix $(BIN)/npm @bufbuild/buf@$(BUF_VERSION)
	@ln -sf npm/node_modules/.bin/buf $@

$(BIN)/protoc-gen-go: tools/go.mod | $(BIN)
	@cd tools && GOWORK=off GOBIN=$(BIN) go install tool
	@touch $@

$(BIN)/sqlc: | $(BIN)
	@GOBIN=$(BIN) go install github.com/sqlc-dev/sqlc/cmd/sqlc@$(SQLC_VERSION)

$(BIN)/golangci-lint: | $(BIN)
	@GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(BIN)/gofumpt: | $(BIN)
	@GOBIN=$(BIN) go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)
