package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// ErrNoCard is what errors wrap that say that no process serves a card at an interface.
var ErrNoCard = errors.New("share: no process serves a card there")

// ErrFull is what errors wrap that say that a card has as many programs as it takes.
var ErrFull = errors.New("share: too many programs use the card")

// The control programs that a card may run.
const (
	Plain = "plain"
	AMII  = "am2"
	VMMC  = "vmmc"
)

// Outdated returns why a program cannot use a card whose process has another version, or "".
func Outdated(control string, card, program int) string {
	if card == program {
		return ""
	}
	older := "this program"
	if card < program {
		older = "the card (bobnet card)"
	}
	return fmt.Sprintf("it serves programs of %s by version %d of their protocol, and this program has version %d: restart %s from the other one's version of Bobnet",
		control, card, program, older)
}

// Welcome is what the card's process says to a program that connects, as a line of JSON. What follows
// depends on the control program. The end of the connection says that the process is gone.
type Welcome struct {
	Program   string
	Version   int    `json:",omitempty"` // of what follows
	Refused   string `json:",omitempty"` // why the program is not served
	Full      bool   `json:",omitempty"` // that is because there are too many
	Directory string `json:",omitempty"` // of the sockets of blocks of ports, which the card gives out; else programs make them
	MTU       int    `json:",omitempty"`
	EtherType uint16 `json:",omitempty"`
}

const (
	controlPatience = 10 * time.Second // for the welcome, which a process that lives sends at once
	mostPrograms    = 63               // as many as there are blocks of ports
	mostOfUser      = 16               // programs of one user, but root and the card's own
	cardPort        = 1                // of the card's process among those that share memory
	ring            = 4 << 20          // bytes of the frames between card and program, each way
)

// control is the name of the server of the card at an interface, for package runsocket.
func control(at iface.Interface) string { return "card/" + strconv.Itoa(at.Index) }

// openMemory claims ports among those that share memory with the card at an interface.
func openMemory(at iface.Interface, typ ethernet.EtherType, ports transport.PortRange, anyUser bool, directory string, sockets ...int) (*shm.Link, error) {
	return shm.Open(&shm.Config{Directory: directory, Sockets: sockets, Address: at.MAC, Segment: "card/" + strconv.Itoa(at.Index), EtherType: typ, Ports: ports, Ring: ring, AnyUser: anyUser})
}

// Dial connects to the process that serves the card at an interface, which is to run a control
// program. The error wraps ErrNoCard if there is no such process, ErrFull if it serves as many
// programs as it can, and that of ctx if it ends before. version is that of what the program and the card's process
// say to each other and share.
func Dial(ctx context.Context, at iface.Interface, program string, version int) (conn *net.UnixConn, w Welcome, err error) {
	conn, err = runsocket.Dial("unix", control(at))
	if err != nil {
		return nil, w, fmt.Errorf("%w: interface %s: %w; start one: bobnet card --iface %s", ErrNoCard, at.Name, err, at.Name)
	}
	if _, whose := stranger(conn, false); whose != "" { // any user can take the name of a card that root has none of
		conn.Close()
		return nil, w, fmt.Errorf("%w: the one at interface %s is not believed: %s", ErrNoCard, at.Name, whose)
	}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	conn.SetReadDeadline(time.Now().Add(controlPatience))
	if err = json.NewDecoder(conn).Decode(&w); err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	switch ended := !stop(); {
	case ended:
		err = fmt.Errorf("share: the card at interface %s: %w", at.Name, ctx.Err())
	case err != nil:
		err = fmt.Errorf("%w: the one at interface %s does not answer: %w", ErrNoCard, at.Name, err)
	case w.Full:
		err = fmt.Errorf("%w: the one at interface %s: %s", ErrFull, at.Name, w.Refused)
	case w.Refused != "":
		err = fmt.Errorf("share: the card at interface %s refuses this program: %s", at.Name, w.Refused)
	case w.Program != program:
		err = fmt.Errorf("share: the card at interface %s runs the control program %s, this program needs %s; end it and start: bobnet card --iface %s --program %s",
			at.Name, w.Program, program, at.Name, program)
	case w.Version != version:
		err = fmt.Errorf("share: the card at interface %s: %s", at.Name, Outdated(program, w.Version, version))
	default:
		return conn, w, nil
	}
	conn.Close()
	return nil, w, err
}

// stranger returns the user of the process at the other end of a connection, and why it is neither
// root's nor one's own, "" if it is, or if that does not matter.
func stranger(conn *net.UnixConn, anyUser bool) (uid uint32, refused string) {
	who, err := passfd.PeerOf(conn)
	switch {
	case err != nil:
		return passfd.Unknown, "its user is not known"
	case anyUser || who.Uid == 0 || int(who.Uid) == os.Geteuid():
		return who.Uid, ""
	}
	return who.Uid, fmt.Sprintf("it is user %d's, the other side user %d's: run both as one user, or the card as root and with --any-user", who.Uid, os.Geteuid())
}

// envelope writes the header that a frame has in front in a ring.
func envelope(b []byte, mac ethertype.MAC, typ ethernet.EtherType, from, to uint16, size int) {
	h := ethertype.Header{Dst: mac, Src: mac, Type: typ, Kind: ethertype.KindEcho, DstPort: to, SrcPort: from, Size: uint16(size)}
	h.Put(b[:ethertype.HeaderSize])
}
