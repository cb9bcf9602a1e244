package nodeagent

import (
	"bufio"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/userfile"
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
