package rpcgen

import "strings"

// headers has types of C headers that occur in specifications, with the types of RPC language by
// which -D can replace them.
var headers = map[string]string{
	"size_t": "u_int", "ssize_t": "int", "time_t": "int", "off_t": "hyper", "pid_t": "int", "uid_t": "u_int", "gid_t": "u_int",
	"mode_t": "u_int", "dev_t": "u_int", "ino_t": "u_int", "in_addr_t": "u_int", "in_port_t": "u_short", "socklen_t": "u_int",
	"rpcprog_t": "u_int", "rpcvers_t": "u_int", "rpcproc_t": "u_int", "rpcprot_t": "u_int", "rpcport_t": "u_int",
	"uint": "u_int", "ulong": "u_int", "ushort": "u_short", "uint_t": "u_int", "u_int32": "u_int", "u_int64": "unsigned hyper",
	"longlong": "hyper", "ulonglong": "unsigned hyper", "quad": "hyper", "quad_int": "hyper", "enum_t": "int", "boolean_t": "bool", "boolean": "bool",
}

// opaqueHeaders has the types that only a typedef can replace.
var opaqueHeaders = map[string]string{
	"caddr_t": "typedef string caddr_t<>;", "netobj": "typedef opaque netobj<1024>;", "des_block": "typedef opaque des_block[8];",
	"in_addr": "typedef u_int in_addr;", "sockaddr": "typedef opaque sockaddr<128>;", "sockaddr_in": "typedef opaque sockaddr_in[16];",
	"timeval": "struct timeval { int tv_sec; int tv_usec; };", "timespec": "struct timespec { int tv_sec; int tv_nsec; };",
}

// undefinedType reports that a type is not declared, with a hint.
func (c *checker) undefinedType(t *typeSpec) {
	switch as, short := headers[t.name]; {
	case short && t.tag == "":
		c.add(t.at, "undefined type %s: it is of C's headers, and not of RPC language: say what it is here, as by -D '%s=%s'", t.name, t.name, as)
	case opaqueHeaders[t.name] != "":
		c.add(t.at, "undefined type %s: it is of C's headers, and not of RPC language: declare it, as by %s (between #ifdef RPC_GO and #endif if C is to have its own)", t.name, opaqueHeaders[t.name])
	default:
		c.add(t.at, "undefined type %s: if another file has it, #include that (-I says where); if it is of a C header, give it a type, as by -D %s=int", t.name, t.name)
	}
}

// dialects has words that begin definitions in dialects of RPC language.
var dialects = map[string]string{
	"namespace": "is of xdrpp: take it away with its braces", "import": "is of no RFC: #include the file", "include": "is of no RFC: write #include",
	"class": "is of no RFC: write struct", "extern": "", "static": "", "public": "", "interface": "is of no RFC: write program",
}

// foreign returns a hint if a definition begins with a word of a dialect.
func foreign(t token) string {
	said, known := dialects[strings.ToLower(t.text)]
	switch {
	case said != "":
		return ": " + t.text + " " + said
	case known || t.kind == identToken && !keywords[t.text]:
		return ": if " + t.text + " is a word that says nothing here, -D " + t.text + "= leaves it out"
	}
	return ""
}
