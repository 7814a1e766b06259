/* Preloaded into a development server: what would be bound to every address is bound to 127.0.0.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*bind_function)(int, const struct sockaddr *, socklen_t);

int bind(int socket, const struct sockaddr *address, socklen_t length)
{
    static bind_function system_bind;
    if (system_bind == NULL)
        system_bind = (bind_function)dlsym(RTLD_NEXT, "bind");

    if (address != NULL && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in changed;
        memcpy(&changed, address, sizeof changed);
        if (changed.sin_addr.s_addr == htonl(INADDR_ANY) && changed.sin_port != 0) {
            changed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            return system_bind(socket, (const struct sockaddr *)&changed, sizeof changed);
        }
    }
    if (address != NULL && address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 changed;
        memcpy(&changed, address, sizeof changed);
        if (IN6_IS_ADDR_UNSPECIFIED(&changed.sin6_addr) && changed.sin6_port != 0) {
            /* ::ffff:127.0.0.1, so that clients reach it by IPv4 */
            static const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1};
            memcpy(&changed.sin6_addr, mapped, sizeof mapped);
            return system_bind(socket, (const struct sockaddr *)&changed, sizeof changed);
        }
    }
    return system_bind(socket, address, length);
}
