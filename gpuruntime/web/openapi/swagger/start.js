// The validator is a service on the Internet; this page needs nothing but the process that serves it.
window.ui = SwaggerUIBundle({
  url: "../api/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
