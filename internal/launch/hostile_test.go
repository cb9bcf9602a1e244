package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"golang.org/x/sys/unix"
)

// lieEnv is what a node says that lies, as lines with | between them.
const lieEnv = "LAUNCH_TEST_LIE"

// lie is a node that greets, and then says what no node says.
func lie() error {
	out := &writer{w: os.Stdout}
	if err := out.line(greeting, &message{Hello: &Inventory{Protocol: Protocol, Version: version, Clock: time.Now().UnixNano(), Interface: "eth0"}}); err != nil {
		return err
	}
	for text := range strings.SplitSeq(os.Getenv(lieEnv), "|") {
		fmt.Println(text)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// TestLiar: a node that speaks of ranks which are not its own, or have ended, of codes that
// no process has, or of a barrier twice, is lost, and the job fails because of it: no other
// node's ranks are taken to have ended.
func TestLiar(t *testing.T) {
	for lies, says := range map[string]string{
		`{"Exit":{"Rank":0}}`:                       "it reports that rank 0 has ended, but does not run this rank",
		`{"Exit":{"Rank":2}}|{"Exit":{"Rank":2}}`:   "it reports that rank 2 has ended, but does not run this rank",
		`{"Exit":{"Rank":2,"Code":256}}`:            "rank 2 reported as ended with code 256",
		`{"Exit":{"Rank":2,"Code":-1}}`:             "with code -1",
		`{"Exit":{"Rank":-1}}`:                      "rank -1 has ended, but",
		`{"Abort":{"Rank":1,"Code":3}}`:             "rank 1 aborts, but does not run this rank",
		`{"Abort":{"Rank":2,"Code":256}}`:           "rank 2 reported as aborting with exit code 256",
		`{"Abort":{"Rank":2,"Code":0}}`:             "aborting with exit code 0",
		`{"Line":{"Rank":4000,"Text":"eA=="}}`:      "rank 4000 prints, but does not run this rank",
		`{"Fence":{}}|{"Fence":{}}`:                 "barrier reported twice",
		`{"Exit":{"Rank":99999999999999999999999}}`: "not a bobnet node: received",
	} {
		c := config("sleep", "1000")
		c.SSH = []string{"sh", "-c", fmt.Sprintf("%s=liar %s='%s' exec sh -c \"$1\"", roleEnv, lieEnv, lies)}
		err := c.Run(t.Context())
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Host != "other" || exit.Code != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", lies, err, says)
		}
	}
}

// TestGroupGone: a command that has ended gets no more signals, since its number may be
// another group's by then. What it has left behind has the number here, and is not killed.
func TestGroupGone(t *testing.T) {
	in, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer tell.Close()
	hear, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hear.Close()
	cmd := exec.Command("sh", "-c", "(read word <&3; echo $word >&4) &")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r := &keep.Group{Cmd: cmd}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	if err := r.Reap(); err != nil {
		t.Fatal(err)
	}
	r.Signal(unix.SIGKILL)
	if _, err := tell.WriteString("alive\n"); err != nil {
		t.Fatal(err)
	}
	hear.SetReadDeadline(time.Now().Add(time.Minute))
	if said, err := io.ReadAll(hear); err != nil || string(said) != "alive\n" {
		t.Errorf("what is left says %q, %v", said, err)
	}
}
