package vmmc_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// pair is two processes in real time, in shared memory.
func pair(t testing.TB) (ctx context.Context, ps [2]*vmmc.Process) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	for i := range ps {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: quiet})
		check(t, err)
		t.Cleanup(func() { nic.Close() })
		ps[i], err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: uint32(i), Job: scopeOf(t), Daemon: vmmc.NoDaemon, Logger: quiet})
		check(t, err)
		t.Cleanup(func() { ps[i].Close() })
	}
	return ctx, ps
}

// TestHandlers: handlers that panic, end their goroutine, block for long, send, block
// notifications and unexport: each runs once, the process goes on, and none holds the lock
// that it ran without. They run where somebody waits, polls or sends, and where nobody does.
func TestHandlers(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, p *vmmc.Process){
		"nobody waits": func(context.Context, *vmmc.Process) { runtime.Gosched() },
		"wait":         func(ctx context.Context, p *vmmc.Process) { _ = p.WaitNotification(ctx) },
		"poll":         func(_ context.Context, p *vmmc.Process) { p.Poll() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, ps := pair(t)
			p, q := ps[0], ps[1]
			far, err := q.Export(make([]byte, 64), 1, vmmc.Everybody, nil)
			check(t, err)
			back, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 1})
			check(t, err)
			h := &handlers{p: p, ctx: ctx, back: back.Addr(), blocked: make(chan struct{}), release: make(chan struct{}), errs: make(chan error, 16)}
			e, err := p.Export(make([]byte, 64), 1, vmmc.Everybody, h.handle)
			check(t, err)
			i, err := q.Import(ctx, vmmc.Name{Process: 0, ID: 1})
			check(t, err)
			for range 6 {
				check(t, q.SendMsgWithNotify(ctx, nil, i.Addr()))
			}
			h.drive(t, wait, func() bool { return h.ran.Load() == 3 })
			select {
			case <-h.blocked:
			case <-ctx.Done():
				t.Fatal("the third handler does not run")
			}
			check(t, p.SendMsg(ctx, []byte{1, 0, 0, 0}, back.Addr())) // it holds up nothing else
			if s := p.Snapshot(); !s.Handling || s.Stats.Handled != 2 || s.Stats.Panics != 1 {
				t.Errorf("%+v", s.Stats)
			}
			h.blocked = nil
			close(h.release)
			h.drive(t, wait, func() bool { return len(e.Importers()) == 0 && p.Snapshot().Stats.Handled == 6 })
			for range 3 {
				check(t, <-h.errs)
			}
			_, err = q.WaitWord(ctx, vmmc.Word(far.Bytes(), 0), 1)
			check(t, err)
			if err := q.SendMsg(ctx, nil, i.Addr()); !errors.Is(err, vmmc.ErrUnexported) {
				t.Errorf("a send after Unexport: %v", err)
			}
		})
	}
}

// handlers are the handlers of TestHandlers: one function, which does another thing each
// time.
type handlers struct {
	p                *vmmc.Process
	ctx              context.Context
	back             vmmc.ProxyAddr
	ran              atomic.Int32
	blocked, release chan struct{}
	errs             chan error
}

func (h *handlers) handle(n vmmc.Notification) {
	switch h.ran.Add(1) {
	case 1:
		panic("a handler panics")
	case 2:
		runtime.Goexit()
	case 3:
		close(h.blocked)
		<-h.release
	case 4:
		h.errs <- h.p.SendMsg(h.ctx, []byte{4, 0, 0, 0}, h.back)
	case 5:
		h.p.BlockNotifications()
		h.errs <- h.p.UnblockNotifications()
	case 6:
		h.errs <- n.Export.Unexport(h.ctx)
	}
}

// drive has goroutines wait until done, or until a handler blocks.
func (h *handlers) drive(t *testing.T, wait func(ctx context.Context, p *vmmc.Process), done func() bool) {
	t.Helper()
	for !done() {
		waited := make(chan struct{})
		go func() { // a handler may end it
			defer close(waited)
			wait(h.ctx, h.p)
		}()
		select {
		case <-waited:
		case <-h.blocked: // it runs the handler that blocks
			return
		case <-time.After(10 * time.Millisecond): // one before it may have run the last
		}
		check(t, h.ctx.Err())
	}
}

// TestClose: a process that is closed in the middle of everything, from several goroutines
// and more than once, ends its own waits and its peers' sends with typed errors.
func TestClose(t *testing.T) {
	for name, end := range map[string]func(p, q *vmmc.Process) *vmmc.Process{
		"exporter": func(p, _ *vmmc.Process) *vmmc.Process { return p },
		"importer": func(_, q *vmmc.Process) *vmmc.Process { return q },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, ps := pair(t)
			p, q := ps[0], ps[1]
			buf := make([]byte, 1<<20)
			e, err := p.Export(buf, 1, vmmc.Everybody, nil)
			check(t, err)
			i, err := q.Import(ctx, vmmc.Name{Process: 0, ID: 1})
			check(t, err)
			under, ended := make(chan struct{}, 1), make(chan error, 5)
			go func() {
				src := make([]byte, len(buf))
				for {
					if err := q.SendMsg(ctx, src, i.Addr()); err != nil {
						ended <- err
						return
					}
					select {
					case under <- struct{}{}:
					default:
					}
				}
			}()
			victim := end(p, q)
			go func() { ended <- victim.WaitNotification(ctx) }()
			go func() {
				_, err := victim.WaitWord(ctx, new(uint32), 0)
				ended <- err
			}()
			go func() {
				_, err := victim.Import(ctx, vmmc.Name{Process: 77, ID: 1}) // nobody
				ended <- err
			}()
			waiting := victim.ImportStart(vmmc.Name{Process: 0, ID: 99}) // not exported
			go func() { ended <- waiting.Wait(ctx) }()
			<-under
			for range 2 {
				go victim.Close()
			}
			check(t, victim.Close())
			for range cap(ended) {
				if err := <-ended; !errors.Is(err, vmmc.ErrClosed) && !errors.Is(err, vmmc.ErrPeer) {
					t.Errorf("ended by %v", err)
				}
			}
			check(t, victim.Close())
			check(t, e.Unexport(ctx))
			check(t, i.Unimport(ctx))
			refusesAll(t, ctx, victim)
		})
	}
}

// refusesAll wants a process that is closed to say so.
func refusesAll(t *testing.T, ctx context.Context, p *vmmc.Process) {
	t.Helper()
	if _, err := p.Export(make([]byte, 8), 2, vmmc.Everybody, nil); !errors.Is(err, vmmc.ErrClosed) {
		t.Errorf("Export: %v", err)
	}
	if _, err := p.Import(ctx, vmmc.Name{Process: 0, ID: 1}); !errors.Is(err, vmmc.ErrClosed) {
		t.Errorf("Import: %v", err)
	}
	if err := p.SendMsg(ctx, nil, 1); !errors.Is(err, vmmc.ErrClosed) {
		t.Errorf("SendMsg: %v", err)
	}
	if err := p.Post(&vmmc.Send{}); !errors.Is(err, vmmc.ErrClosed) {
		t.Errorf("Post: %v", err)
	}
	p.Poll()
	if s := p.Snapshot(); !s.Closed {
		t.Errorf("%+v", s)
	}
}

// TestLogHandler: a handler of log lines may look at the process, and may block: when the
// panic of a handler of notifications is logged, the next ones are handled all the same, and
// Close does not wait.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(p *vmmc.Process){
		"calls":  func(p *vmmc.Process) { p.Snapshot() },
		"blocks": func(*vmmc.Process) { <-block },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
			check(t, err)
			t.Cleanup(func() { nic.Close() })
			var p *vmmc.Process
			lines := make(chan struct{}, 8)
			p, err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: 1, Job: scopeOf(t), Logger: slog.New(logtest.Handler(func(string) {
				lines <- struct{}{}
				call(p)
			}))})
			check(t, err)
			told := make(chan struct{}, 8)
			_, err = p.Export(make([]byte, 8), 1, vmmc.Everybody, func(vmmc.Notification) {
				told <- struct{}{}
				panic("a handler panics")
			})
			check(t, err)
			q := liveProcess(t, 2)
			i, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 1})
			check(t, err)
			for k := range 3 {
				check(t, q.SendMsgWithNotify(ctx, make([]byte, 8), i.Addr()))
				select {
				case <-told:
				case <-ctx.Done():
					t.Fatalf("notification %d is not handled", k)
				}
			}
			<-lines
			closed := make(chan error, 1)
			go func() { closed <- p.Close() }()
			select {
			case err := <-closed:
				check(t, err)
			case <-ctx.Done():
				t.Fatal("Close has not returned")
			}
		})
	}
}
