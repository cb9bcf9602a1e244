package nodeagent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Policy selects the users that get sockets: all, or some users and groups. The zero Policy allows
// root only.
type Policy struct {
	all          bool
	users, group []uint32
}

// ParsePolicy parses entries separated by commas, spaces or newlines: user:NAME or user:NUMBER,
// group:NAME or group:NUMBER, and all. # starts a comment. It looks names up in /etc/passwd and
// /etc/group; users and groups of other directories, such as LDAP, must be given by number.
func ParsePolicy(text string) (p Policy, err error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		for _, entry := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if err := p.addEntry(entry); err != nil {
				return Policy{}, fmt.Errorf("node agent: policy entry %q: %w: want user:NAME, group:NAME, with a name or a number, or all", entry, err)
			}
		}
	}
	return p, nil
}

// maxPolicy is the maximum size of a policy file in bytes.
const maxPolicy = 1 << 20

// ReadPolicy is ParsePolicy for a file. It rejects a file that users other than its owner may write.
func ReadPolicy(path string) (Policy, error) {
	f, err := userfile.Open(path)
	if err != nil {
		return Policy{}, fmt.Errorf("node agent: policy: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Policy{}, fmt.Errorf("node agent: policy: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return Policy{}, fmt.Errorf("node agent: policy %s: writable by users other than its owner (mode %o; try: chmod go-w %s)", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPolicy))
	if err != nil {
		return Policy{}, fmt.Errorf("node agent: policy: %w", err)
	}
	return ParsePolicy(string(text))
}

func (p *Policy) addEntry(entry string) error {
	kind, name, _ := strings.Cut(entry, ":")
	switch {
	case entry == "all":
		p.all = true
	case kind == "user" && name != "":
		id, err := number(name, func() (string, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		})
		p.users = append(p.users, id)
		return err
	case kind == "group" && name != "":
		id, err := number(name, func() (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		})
		p.group = append(p.group, id)
		return err
	default:
		return fmt.Errorf("invalid")
	}
	return nil
}

// number parses name as a number, or looks it up.
func number(name string, lookup func() (string, error)) (uint32, error) {
	id, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(id), nil
	}
	text, err := lookup()
	if err != nil {
		return 0, fmt.Errorf("%w (give names that are not in /etc/passwd or /etc/group, such as those of LDAP, by number: group:1234, which getent group NAME prints)", err)
	}
	id, err = strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}

// Allows reports whether a user gets sockets. gid and groups are the groups that the kernel reports
// for the user's process. Allows needs no directory of users or groups.
func (p Policy) Allows(uid, gid uint32, groups ...uint32) bool {
	return p.all || uid == 0 || slices.Contains(p.users, uid) || slices.Contains(p.group, gid) ||
		slices.ContainsFunc(groups, func(g uint32) bool { return slices.Contains(p.group, g) })
}

// A user may make requestBurst requests at once, and requestRate more each second. Further requests
// wait, for at most requestWait.
const (
	requestBurst = 128
	requestRate  = 16
	requestWait  = 5 * time.Second
)

// Maximum number of answers that are received concurrently, of all users and of one user. Further
// answers wait in the sockets. An answer has up to agent.MaxAnswer bytes.
const (
	answersAtOnce = 64
	answersOfUser = 4
)

// limits bounds the cost of users: their connections, the rate of their requests, and the memory of
// their answers.
type limits struct {
	gate  *admission.Gate[uint32] // connections
	mu    sync.Mutex
	users map[uint32]*usage
	clock func() time.Time
	all   chan struct{} // one element for each answer that is being received
}

type usage struct {
	tokens float64
	at     time.Time
	room   room
}

// room limits the concurrent answers of a user.
type room struct{ own, all chan struct{} }

// enter waits until there is room for an answer.
func (r *room) enter() {
	r.own <- struct{}{}
	r.all <- struct{}{}
}

func (r *room) leave() {
	<-r.all
	<-r.own
}

// allConns is the maximum number of connections of all users.
const allConns = 8192

// init sets the maximum number of connections of a user. Root may use those of all users.
func (l *limits) init(conns int) {
	l.gate = admission.New(admission.Limits{Conns: conns, AllConns: max(conns, allConns)}, uint32(0))
	l.users, l.clock, l.all = map[uint32]*usage{}, time.Now, make(chan struct{}, answersAtOnce)
}

// enter counts a connection of a user, unless the user has too many.
func (l *limits) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[uid]
	if !l.gate.Enter(uid) {
		return false
	}
	if u == nil {
		l.forget()
		u = &usage{tokens: requestBurst, at: l.clock(), room: room{own: make(chan struct{}, answersOfUser), all: l.all}}
		l.users[uid] = u
	}
	return true
}

func (l *limits) leave(uid uint32) { l.gate.Leave(uid) }

// roomOf returns the room of a user with a connection.
func (l *limits) roomOf(uid uint32) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &l.users[uid].room
}

// forget removes users without a connection whose tokens are complete.
func (l *limits) forget() {
	for uid, u := range l.users {
		if conns, _ := l.gate.Conns(uid); conns == 0 && u.filled(l.clock()) >= requestBurst {
			delete(l.users, uid)
		}
	}
}

func (u *usage) filled(now time.Time) float64 {
	return min(requestBurst, u.tokens+requestRate*now.Sub(u.at).Seconds())
}

// wait takes a token of a user, and waits until it is available.
func (l *limits) wait(uid uint32) error {
	pause, err := l.takeToken(uid)
	if err == nil && pause > 0 {
		time.Sleep(pause)
	}
	return err
}

// takeToken takes a token, and returns the time until it is available.
func (l *limits) takeToken(uid uint32) (pause time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.users[uid], l.clock()
	u.tokens, u.at = u.filled(now), now
	if pause = time.Duration((1 - u.tokens) / requestRate * float64(time.Second)); pause > requestWait {
		return 0, errors.New("too many requests (try again later)")
	}
	u.tokens--
	return max(0, pause), nil
}

// judge checks whether a program may make requests at all.
func (s *Server) judge(conn *net.UnixConn, r *agent.Request, cred *unix.Ucred) (agent.Refusal, error) {
	policy, err := s.cfg.Policy()
	if err != nil {
		return agent.Failed, err
	}
	groups, err := groupsOf(conn)
	switch {
	case err != nil:
		return agent.Failed, fmt.Errorf("read the groups of a program: %w", err)
	case !policy.Allows(cred.Uid, cred.Gid, groups...):
		return agent.Denied, fmt.Errorf("user %d is not allowed (ask the administrator of this node for --allow user:%d)", cred.Uid, cred.Uid)
	case r.Version != agent.Version:
		return agent.Invalid, fmt.Errorf("the agent has protocol version %d, the program %d (use the same release of both)", agent.Version, r.Version)
	}
	return "", nil
}

// typeNames writes EtherTypes as "0x88b5, 0x88b6".
func typeNames(types []ethernet.EtherType) string {
	var names []string
	for _, t := range types {
		names = append(names, fmt.Sprintf("%#04x", uint16(t)))
	}
	return strings.Join(names, ", ")
}

// decide handles a request for sockets: it creates them, or takes over those in fds. After an error
// the caller owns fds.
func (s *Server) decide(r *agent.Request, cred *unix.Ucred, fds []int) (*agent.Grant, agent.Refusal, error) {
	switch {
	case s.cfg.Interfaces != nil && !slices.Contains(s.cfg.Interfaces, r.Interface):
		return nil, agent.Denied, fmt.Errorf("the agent serves interfaces %q, not %q", s.cfg.Interfaces, r.Interface)
	case !slices.Contains(s.cfg.EtherTypes, r.EtherType):
		return nil, agent.Denied, fmt.Errorf("the agent serves EtherTypes %s, not %#04x", typeNames(s.cfg.EtherTypes), uint16(r.EtherType))
	case r.Ports.Hi < r.Ports.Lo, r.Held != (len(fds) > 0):
		return nil, agent.Invalid, fmt.Errorf("invalid request: ports %d..%d with %d sockets", r.Ports.Lo, r.Ports.Hi, len(fds))
	}
	ifi, err := agent.Find(r)
	if err != nil {
		return nil, agent.Elsewhere, err
	}
	if r.Held {
		return s.again(r, ifi, cred, fds)
	}
	if err := s.bound(cred.Uid, agent.BlocksOf(r.Ports)); err != nil {
		return nil, agent.Denied, err
	}
	var guard agent.Guard
	if s.guard != nil {
		if guard.Device, err = device(ifi); err != nil {
			return nil, agent.Failed, err
		}
		guard.Send, guard.Receive = s.guard.mark(), receiveMark
	}
	grant, err := agent.Make(r, ifi, guard)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, agent.Taken, err
	case errors.Is(err, unix.EINVAL):
		return nil, agent.Invalid, err
	case err != nil:
		return nil, agent.Failed, err
	}
	granted, refusal, err := s.admit(grant, cred)
	if err != nil {
		grant.Close(cred.Uid)
	}
	return granted, refusal, err
}

// again takes over sockets that a program got from an earlier agent. The claim proves that the
// program owns the ports, and the mark of its sockets proves that an agent granted them. The guard
// has the ports under the same mark, or not at all if the table was removed. Ports under
// another mark belong to another claim, or to a program that has ended, and are refused.
func (s *Server) again(r *agent.Request, ifi iface.Interface, cred *unix.Ucred, fds []int) (*agent.Grant, agent.Refusal, error) {
	grant, err := agent.Take(r, ifi, fds)
	if err != nil || s.guard != nil && !ours(grant.Guard.Send) {
		return nil, agent.Invalid, fmt.Errorf("ports %d..%d: the sockets are not from an agent: %w", r.Ports.Lo, r.Ports.Hi, errors.Join(err, unix.EINVAL))
	}
	blocks := blocksOf(grant)
	if s.guard != nil {
		if b, has := s.guard.other(blocks, grant.Guard.Send); has {
			return nil, agent.Taken, fmt.Errorf("ports from %d on were granted to other sockets (end the program that holds the claim on them, and request ports without passing sockets)", b.n*blockSize)
		}
	}
	more := 0
	for _, b := range blocks {
		if who, has := s.held[b]; !has || who != cred.Uid {
			more++
		}
	}
	if err := s.bound(cred.Uid, more); err != nil {
		return nil, agent.Denied, err
	}
	return s.admit(grant, cred)
}

// bound returns an error if a user may not have more additional blocks. Root may have all.
func (s *Server) bound(uid uint32, more int) error {
	if has := s.count(uid); uid != 0 && more > 0 && has+more > s.cfg.MaxBlocks {
		return fmt.Errorf("user %d has %d blocks of %d ports and requests %d more: the maximum is %d (see --blocks)", uid, has, blockSize, more, s.cfg.MaxBlocks)
	}
	return nil
}

// admit permits the sockets of a grant to send, and records the owner of the ports.
func (s *Server) admit(g *agent.Grant, cred *unix.Ucred) (*agent.Grant, agent.Refusal, error) {
	blocks := blocksOf(g)
	if s.guard != nil {
		if err := s.guard.allow(blocks, element{mark: g.Guard.Send, mac: g.MAC()}); err != nil {
			return nil, agent.Failed, err
		}
	}
	for _, b := range blocks {
		s.held[b] = cred.Uid
	}
	return g, "", nil
}

// count returns the number of blocks of a user that the agent knows.
func (s *Server) count(uid uint32) (n int) {
	for b, who := range s.held {
		switch {
		case who != uid:
		case agent.Claimed(b.index, b.typ, b.n):
			n++
		default:
			delete(s.held, b)
		}
	}
	return n
}
