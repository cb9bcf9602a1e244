package nodeagent

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"golang.org/x/sys/unix"
)

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
