package lanai_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
	"golang.org/x/sys/unix"
)

// childEnv has this test program be one that is killed: "card" serves a card, "exporter" exports a board
// as process 1, "writer" writes to the board of process 1 all the time, as process 2.
const childEnv = "BOBNET_VMMC_LANAI_CHILD"

func init() {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(what); err != nil {
			fmt.Fprintln(os.Stderr, what+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

const boardSize = 1 << 16

// child is the main of a program that is killed. It prints a line when it is ready.
func child(what string) error {
	ctx := context.Background()
	c, err := lanai.Open(ctx, &lanai.Config{Interface: vethtest.Name})
	if err != nil {
		return err
	}
	if number, is := strings.CutPrefix(what, sharer); is {
		return shareCard(ctx, c, number)
	}
	switch what {
	case "card":
		serve, err := lanai.Desk(c, false)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		return serve(ctx)
	case "exporter":
		p, _, err := exporter(ctx, c, 1)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		never := make([]uint32, 1)
		_, err = p.WaitWord(ctx, &never[0], 0)
		return err
	}
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: c, Process: 2})
	if err != nil {
		return err
	}
	i, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 7})
	if err != nil {
		return err
	}
	b := make([]byte, boardSize)
	for n := 0; ; n++ {
		if err := p.SendMsgWithNotify(ctx, b, i.Addr()); err != nil {
			return err
		}
		if n == 0 {
			fmt.Println("ready")
		}
	}
}

// exporter opens a process that exports a board.
func exporter(ctx context.Context, c *lanai.Card, number uint32) (p *vmmc.Process, e *vmmc.Export, err error) {
	if p, err = vmmc.Open(ctx, &vmmc.Config{Card: c, Process: number}); err != nil {
		return nil, nil, err
	}
	board, err := p.AllocMem(boardSize)
	if err == nil {
		e, err = p.Export(board, 7, vmmc.Everybody, func(vmmc.Notification) {})
	}
	return p, e, err
}

// start starts a child at a side of a cable, and returns what kills it.
func start(t testing.TB, veth *vethtest.Pair, side int, what string) (kill func()) {
	t.Helper()
	kill, _ = startChild(t, veth, side, what)
	return kill
}

// startChild returns the process, too.
func startChild(t testing.TB, veth *vethtest.Pair, side int, what string) (kill func(), child *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = veth.In(side, cmd.Start)
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s does not start: %v", what, err)
	}
	return kill, cmd.Process
}

// killRounds is how often the tests kill a program.
func killRounds() int {
	if need.Full() {
		return 10
	}
	return 2
}

// TestStoppedExporter: writes to the memory of a program that does not run end all the same, and other
// programs on its card go on.
func TestStoppedExporter(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	near, other := openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kill, stopped := startChild(t, veth, 0, "exporter")
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: other, Process: 2})
	if err != nil {
		t.Fatal(err)
	}
	i, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 7})
	if err == nil {
		err = stopped.Signal(unix.SIGSTOP)
	}
	for n := 0; n < 100 && err == nil; n++ {
		err = p.SendMsg(ctx, make([]byte, boardSize), i.Addr())
	}
	for n := 0; n < 100 && err == nil; n++ { // more than there is room for
		err = p.SendMsgWithNotify(ctx, []byte{1}, i.Addr())
	}
	if err == nil {
		err = writes(t, near, other, 10)
	}
	if err != nil {
		t.Fatal(err)
	}
	kill()
	p.Close()
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// TestKilledExporter: kill -9 of a program that has exported memory, while others write there, ends
// their imports at once, and frees what it had. The next program of the number takes its place.
func TestKilledExporter(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, from := range []*lanai.Card{openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{PeerTimeout: time.Hour})} {
		p, err := vmmc.Open(ctx, &vmmc.Config{Card: from, Process: 2, PeerTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for round := range killRounds() {
			kill := start(t, veth, 0, "exporter")
			i, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 7})
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, boardSize)
			for n := 0; err == nil; n++ {
				if n == 3*round {
					kill()
				}
				err = p.SendMsg(ctx, b, i.Addr())
			}
			if !errors.Is(err, vmmc.ErrPeer) {
				t.Fatalf("writes end by %v, want %v", err, vmmc.ErrPeer)
			}
		}
		p.Close()
	}
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// TestKilledImporter: kill -9 of a program that writes all the time takes it off the exporters' lists.
func TestKilledImporter(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, to := range []*lanai.Card{openVeth(t, veth, 0, lanai.Config{}), openVeth(t, veth, 1, lanai.Config{PeerTimeout: time.Hour})} {
		p, e, err := exporter(ctx, to, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range killRounds() {
			kill := start(t, veth, 0, "writer")
			if len(e.Importers()) != 1 {
				t.Fatalf("importers: %v", e.Importers())
			}
			kill()
			if err := await(ctx, p, func() bool { return len(e.Importers()) == 0 }); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
	}
	if err := left(card); err != nil {
		t.Error(err)
	}
}

// await waits until something is so of a process, which looks again whenever something comes.
func await(ctx context.Context, p *vmmc.Process, is func() bool) error {
	for !is() {
		p.Poll()
		runtime.Gosched()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// TestKilledCard: kill -9 of the process that has the card ends the waits of its programs, which open the
// next card.
func TestKilledCard(t *testing.T) {
	veth := vethtest.New(t, 1500)
	other := openVeth(t, veth, 1, lanai.Config{PeerTimeout: 2 * time.Second})
	for round := range killRounds() {
		kill := start(t, veth, 0, "card")
		c := openVeth(t, veth, 0, lanai.Config{})
		if err := writes(t, c, other, uint32(10+2*round)); err != nil {
			t.Fatal(err)
		}
		p, e, err := exporter(t.Context(), c, 1)
		if err != nil {
			t.Fatal(err)
		}
		killed := make(chan bool)
		go func() {
			kill()
			close(killed)
		}()
		var word uint32
		if _, err := p.WaitWord(t.Context(), &word, 0); !errors.Is(err, transport.ErrGone) || !errors.Is(err, vmmc.ErrClosed) {
			t.Errorf("the wait ends by %v", err)
		}
		<-killed
		if err := e.Unexport(t.Context()); err != nil && !errors.Is(err, vmmc.ErrClosed) {
			t.Error(err)
		}
		if _, err := p.AllocMem(1); !errors.Is(err, vmmc.ErrClosed) {
			t.Errorf("AllocMem: %v", err)
		}
		atomic.StoreUint32(vmmc.Word(e.Bytes(), 0), 1) // the memory stays
		p.Close()
		c.Close()
	}
}

// TestKilledBeforeItAnswers: an exporter ends, and its importer's program is killed when it has been told of
// that, and has not answered yet. The card answers in its place: nothing of the exporter is left.
func TestKilledBeforeItAnswers(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	near := openVeth(t, veth, 0, lanai.Config{})
	openVeth(t, veth, 1, lanai.Config{}) // so that the mapper ends
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, _, err := exporter(ctx, near, 1)
	if err != nil {
		t.Fatal(err)
	}
	kill, writer := startChild(t, veth, 0, "writer")
	if err := writer.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for quiet := false; !quiet && ctx.Err() == nil; runtime.Gosched() {
		s := card.Snapshot()
		quiet = len(s.Processes) == 1 && s.ToSend+s.ToDriver+s.Buffers == 0 // all that was said has been told
	}
	kill()
	if err := left(card); err != nil {
		t.Error(err)
	}
}
