package vrpc

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/vmmc"
)

// mappedAddr is where a server is over VMMC, as a net.Addr.
type mappedAddr vmmc.Name

func (a mappedAddr) Network() string { return "vmmc" }

func (a mappedAddr) String() string { return fmt.Sprintf("%v/%d/%d", a.Node, a.Process, a.ID) }

// VMMCAddr returns where a server is as text: the universal address of netid "vmmc", as
// rpcbind has it: "02:00:00:00:00:01/7/100", node, process and export.
func VMMCAddr(name vmmc.Name) net.Addr { return mappedAddr(name) }

// ParseVMMC returns what an address of VMMC names.
func ParseVMMC(addr string) (name vmmc.Name, err error) {
	parts := strings.Split(addr, "/")
	bad := fmt.Errorf("vrpc: %.60q is no address of VMMC: it must be node/process/export, for example 02:00:00:00:00:01/7/100", addr)
	if len(parts) != 3 {
		return name, bad
	}
	mac, err := net.ParseMAC(parts[0])
	if err != nil || len(mac) != len(name.Node) {
		return name, bad
	}
	process, err1 := strconv.ParseUint(parts[1], 10, 32)
	id, err2 := strconv.ParseUint(parts[2], 10, 32)
	if err1 != nil || err2 != nil {
		return name, bad
	}
	return vmmc.Name{Node: vmmc.Node(mac), Process: uint32(process), ID: uint32(id)}, nil
}

// programWord is the name by which servers of a program are found.
func programWord(prog, vers uint32) string { return fmt.Sprintf("vrpc/%d/%d", prog, vers) }
