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
	"golang.org/x/sys/unix"
)

// Policy says who gets sockets: everybody, or some users and groups. The zero Policy lets in
// root alone.
type Policy struct {
	all          bool
	users, group []uint32
}

// ParsePolicy reads entries with commas, spaces or lines between them: user:NAME or
// user:NUMBER, group:NAME or group:NUMBER, and all. What follows # on a line is a comment. Names
// are looked up in /etc/passwd and /etc/group; others, such as those of LDAP, need their numbers.
func ParsePolicy(text string) (p Policy, err error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		for _, entry := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if err := p.add(entry); err != nil {
				return Policy{}, fmt.Errorf("node agent: policy entry %q: %w: want user:NAME, group:NAME, with a name or a number, or all", entry, err)
			}
		}
	}
	return p, nil
}

// maxPolicy bounds what is read of a policy file, in bytes.
const maxPolicy = 1 << 20

// ReadPolicy is ParsePolicy for a file. One that others than its owner may write is refused.
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
		return Policy{}, fmt.Errorf("node agent: policy %s: others than its owner may write it (mode %o): chmod go-w %s", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPolicy))
	if err != nil {
		return Policy{}, fmt.Errorf("node agent: policy: %w", err)
	}
	return ParsePolicy(string(text))
}

func (p *Policy) add(entry string) error {
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
		return fmt.Errorf("it is none")
	}
	return nil
}

// number returns the number that name is, or that it stands for.
func number(name string, lookup func() (string, error)) (uint32, error) {
	id, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(id), nil
	}
	text, err := lookup()
	if err != nil {
		return 0, fmt.Errorf("%w: names that are not in /etc/passwd or /etc/group, such as those of LDAP, need their numbers, as in group:1234 (getent group NAME prints it)", err)
	}
	id, err = strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}

// Allows reports whether a user gets sockets, whose process has a group and others beside it, as
// the kernel says. No list of users or groups is asked: a user need not be in any.
func (p Policy) Allows(uid, gid uint32, groups ...uint32) bool {
	return p.all || uid == 0 || slices.Contains(p.users, uid) || slices.Contains(p.group, gid) ||
		slices.ContainsFunc(groups, func(g uint32) bool { return slices.Contains(p.group, g) })
}

// A user may make requestBurst requests at once, and requestRate more each second; who asks
// faster is kept waiting, for requestWait at most.
const (
	requestBurst = 128
	requestRate  = 16
	requestWait  = 5 * time.Second
)

// So many answers of all users, and of one, are received at the same time. Others wait in the
// sockets, until these are there or are out of time: an answer takes up to agent.MaxAnswer.
const (
	answersAtOnce = 64
	answersOfUser = 4
)

// limits bounds what users cost: their connections, the rate of their requests, and the memory
// for their answers.
type limits struct {
	gate  *admission.Gate[uint32] // connections
	mu    sync.Mutex
	users map[uint32]*usage
	clock func() time.Time
	all   chan struct{} // has one for each answer under way
}

type usage struct {
	tokens float64
	at     time.Time
	room   room
}

// room is that for the answers of a user.
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

// allConns is how many connections all users have at most.
const allConns = 8192

// init lets a user have so many connections. Root may have those of all.
func (l *limits) init(conns int) {
	l.gate = admission.New(admission.Limits{Conns: conns, AllConns: max(conns, allConns)}, uint32(0))
	l.users, l.clock, l.all = map[uint32]*usage{}, time.Now, make(chan struct{}, answersAtOnce)
}

// enter notes a connection of a user's, unless there are too many.
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

// roomOf returns the room for the answers of a user who has a connection.
func (l *limits) roomOf(uid uint32) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &l.users[uid].room
}

// forget drops users who have no connection and all their tokens.
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

// wait takes a token of a user's, and waits for it.
func (l *limits) wait(uid uint32) error {
	pause, err := l.take(uid)
	if err == nil && pause > 0 {
		time.Sleep(pause)
	}
	return err
}

// take takes a token, and returns how long it is until there is one.
func (l *limits) take(uid uint32) (pause time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.users[uid], l.clock()
	u.tokens, u.at = u.filled(now), now
	if pause = time.Duration((1 - u.tokens) / requestRate * float64(time.Second)); pause > requestWait {
		return 0, errors.New("too many requests: try again later")
	}
	u.tokens--
	return max(0, pause), nil
}

// judge says whether a program may ask for anything at all.
func (s *Server) judge(conn *net.UnixConn, r *agent.Request, cred *unix.Ucred) (agent.Refusal, error) {
	policy, err := s.cfg.Policy()
	if err != nil {
		return agent.Failed, err
	}
	groups, err := groupsOf(conn)
	switch {
	case err != nil:
		return agent.Failed, fmt.Errorf("groups of a program: %w", err)
	case !policy.Allows(cred.Uid, cred.Gid, groups...):
		return agent.Denied, fmt.Errorf("user %d may not: ask the administrator of this node for --allow user:%d", cred.Uid, cred.Uid)
	case r.Version != agent.Version:
		return agent.Invalid, fmt.Errorf("the agent speaks version %d, the program %d: use the same release of both", agent.Version, r.Version)
	}
	return "", nil
}

// decide makes or takes what a request for sockets is about. On an error fds are the caller's.
func (s *Server) decide(r *agent.Request, cred *unix.Ucred, fds []int) (*agent.Grant, agent.Refusal, error) {
	switch {
	case s.cfg.Interfaces != nil && !slices.Contains(s.cfg.Interfaces, r.Interface):
		return nil, agent.Denied, fmt.Errorf("the agent serves %q, and not %q", s.cfg.Interfaces, r.Interface)
	case !slices.Contains(s.cfg.EtherTypes, r.EtherType):
		return nil, agent.Denied, fmt.Errorf("the agent serves EtherTypes %#04x, and not %#04x", s.cfg.EtherTypes, uint16(r.EtherType))
	case r.Ports.Hi < r.Ports.Lo, r.Held != (len(fds) > 0):
		return nil, agent.Invalid, fmt.Errorf("ports %d..%d with %d sockets", r.Ports.Lo, r.Ports.Hi, len(fds))
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

// again takes what a program shows that it holds since an agent before. The claim proves that
// the ports are its own, and the mark of its sockets that an agent has given them. What the
// guard knows of the ports is of the same mark then, or nothing, if somebody has removed its
// table; ports that were given under another mark have another claim, or had it until their
// program ended, and are given anew.
func (s *Server) again(r *agent.Request, ifi iface.Interface, cred *unix.Ucred, fds []int) (*agent.Grant, agent.Refusal, error) {
	grant, err := agent.Take(r, ifi, fds)
	if err != nil || s.guard != nil && !ours(grant.Guard.Send) {
		return nil, agent.Invalid, fmt.Errorf("ports %d..%d are not held by sockets of an agent's: %w", r.Ports.Lo, r.Ports.Hi, errors.Join(err, unix.EINVAL))
	}
	blocks := blocksOf(grant)
	if s.guard != nil {
		if b, has := s.guard.other(blocks, grant.Guard.Send); has {
			return nil, agent.Taken, fmt.Errorf("ports from %d on were given to other sockets than those that are shown: close the program that holds the claim on them, and ask for ports without showing sockets", b.n*blockSize)
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

// bound returns an error if a user may not have so many blocks more. Root may have all.
func (s *Server) bound(uid uint32, more int) error {
	if has := s.count(uid); uid != 0 && more > 0 && has+more > s.cfg.MaxBlocks {
		return fmt.Errorf("user %d has %d blocks of %d ports, and wants %d more: no user has more than %d", uid, has, blockSize, more, s.cfg.MaxBlocks)
	}
	return nil
}

// admit lets the sockets of a grant send, and notes whose the ports are.
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

// count returns how many blocks a user has that the agent knows of.
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
