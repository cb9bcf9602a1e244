package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
)

// Desk accepts programs that want to use a card served by a process, whatever its control program.
// Each program keeps a connection while it uses the card.
type Desk struct {
	listener *net.UnixListener
	anyUser  bool
	programs *admission.Gate[uint32] // by user
}

// OpenDesk opens the desk of the card at an interface, in the network namespace of the calling
// thread. The error wraps EADDRINUSE if there is one.
func OpenDesk(at iface.Interface, anyUser bool) (d *Desk, err error) {
	d = &Desk{anyUser: anyUser, programs: admission.New(admission.Limits{Conns: mostOfUser, AllConns: mostPrograms}, 0, uint32(os.Geteuid()))}
	if d.listener, err = runsocket.Listen("unix", control(at)); err != nil {
		return nil, err
	}
	return d, nil
}

// Programs returns the number of connected programs.
func (d *Desk) Programs() int {
	_, all := d.programs.Conns(0)
	return all
}

// Close stops accepting programs. Connected programs stay.
func (d *Desk) Close() { passfd.CloseListener(d.listener) }

// Serve accepts programs until Close, and calls attend for the connection of each. When ctx is done
// it closes the connections. It returns when all have ended.
func (d *Desk) Serve(ctx context.Context, w Welcome, attend func(conn *net.UnixConn, uid uint32)) {
	var held sync.WaitGroup
	defer held.Wait()
	for {
		conn, err := d.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as no descriptors: this program gives up, later ones may succeed
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		held.Go(func() { d.hold(ctx, conn, w, attend) })
	}
}

const acceptPause = 100 * time.Millisecond

// hold serves a program while its connection lasts. A refused program does not count.
func (d *Desk) hold(ctx context.Context, conn *net.UnixConn, w Welcome, attend func(conn *net.UnixConn, uid uint32)) {
	var uid uint32
	if uid, w.Refused = stranger(conn, d.anyUser); w.Refused == "" && !d.programs.Enter(uid) {
		w.Refused, w.Full = fmt.Sprintf("the maximum is %d programs, and %d of one user", mostPrograms, mostOfUser), true
	}
	conn.SetWriteDeadline(time.Now().Add(controlPatience))
	err := json.NewEncoder(conn).Encode(w)
	if w.Refused != "" {
		passfd.Refuse(conn)
		return
	}
	conn.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	if err == nil {
		attend(conn, uid)
	}
	stop()
	passfd.CloseConn(uid, conn, func() { d.programs.Leave(uid) })
}
