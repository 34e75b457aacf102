package delayqueue

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// codeOfReadme returns the blocks of Go code in the README.
func codeOfReadme(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) != 4 {
		t.Fatalf("the README has %d blocks of Go code, expected the worker, puts, pushes and tests", len(blocks))
	}
	return blocks
}

// buildReadme builds a program in a module of its own, which uses this folder as the library.
func buildReadme(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	library, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	const module = "example.com/delay-queue/clients/go"
	mod := "module readme\n\ngo 1.19\n\nrequire " + module + " v0.1.0\n\nreplace " + module + " => " + library + "\n"
	for name, text := range map[string]string{"main.go": source, "go.mod": mod} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "program", ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, output, source)
	}
	return filepath.Join(folder, "program")
}

func TestTheWorkerOfTheReadmeFinishesAJobAndEndsOnSIGTERM(t *testing.T) {
	s := newScriptedServer(t)
	program := buildReadme(t, strings.Replace(codeOfReadme(t)[0], "http://127.0.0.1:9277", s.URL, 1))
	worker := exec.Command(program)
	output := &strings.Builder{}
	worker.Stderr = output
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	s.job("close:4711", `{"order": 4711}`, "60")
	expect(t, next(t, s.ends), `finish {"id":"close:4711","reservation":"r-close:4711"}`)
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if !strings.Contains(output.String(), "closing order 4711") {
		t.Errorf("the worker wrote %s", output)
	}
}

func TestTheOtherCodeOfTheReadmeCompiles(t *testing.T) {
	blocks := codeOfReadme(t)
	buildReadme(t, `package main

import (
	"context"
	"net/http"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

type Order struct{ Order int }

func closeLater(*delayqueue.Queue, int) {}

func readme(ctx context.Context, q *delayqueue.Queue, w *delayqueue.Worker, request *http.Request, body []byte) {
`+blocks[1]+"\t_, _ = job, err\n}\n\nfunc pushes(request *http.Request, body []byte) {\n"+blocks[2]+"\t_ = err\n}\n\n"+
		"func tests(ctx context.Context, w *delayqueue.Worker) {\n"+blocks[3]+"\t_ = runs\n}\n\nfunc main() {}\n")
}
